#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes what users install without compiling. See doc/releases.md.
#
#   release.sh [--output DIR] [--arch ARCH] [WHAT..]
#
#   --output DIR  folder for the results; default: build/release
#   --arch ARCH   Debian's name of the architecture; default: this machine's. arm64 on another machine: a cross build, without
#                 the images; needs Linux 6.7
#   WHAT          deb12, deb13: packages for Debian 12 and 13, in debian12/ and debian13/ (debsid: for a test)
#                 tarball: programs that run wherever they are unpacked, with glibc 2.31 or later
#                 image: OCI images with the tarball, made by podman: uroced, and the DaemonSet of Kubernetes
#                 default: all of these
#
# Builds in roots of Debian in build/releases, made at the first run (2 GB). Needs root, git, mmdebstrap and podman.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh

mirror=http://deb.debian.org/debian
roots=${UROCE_ROOTS:-$PWD/build/releases}
glibc=/srv/glibc-2.31 # Debian 11's, in the root
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)
output=$PWD/build/release arch=$(dpkg --print-architecture) what=()
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help)
		sed -n '3,/^set /s/^# \?//p' "$0"
		exit 0
		;;
	--output | --arch)
		[ $# -gt 1 ] || { echo "release.sh: $1 needs a value" >&2; exit 2; }
		if [ "$1" = --arch ]; then arch=$2; else mkdir -p "$2" && output=$(realpath "$2"); fi
		shift
		;;
	deb12 | deb13 | debsid | tarball | image) what+=("$1") ;;
	*)
		echo "release.sh: unknown argument '$1'; legal: --output DIR, --arch ARCH, --help, deb12, deb13, tarball, image" >&2
		exit 2
		;;
	esac
	shift
done
native=$(dpkg --print-architecture) cross=''
case $arch in
"$native") [ ${#what[@]} -gt 0 ] || what=(deb12 deb13 tarball image) ;;
arm64)
	cross=-arm64
	export UROCE_FOREIGN=1 # for enter.sh
	[ ${#what[@]} -gt 0 ] || what=(deb12 deb13 tarball)
	[[ " ${what[*]} " != *" image "* ]] || setup_fail "--arch arm64: images are made on a machine of that kind"
	;;
*) setup_fail "--arch $arch: this machine makes $native and arm64" ;;
esac
[ "$(id -u)" = 0 ] || setup_fail "needs root, which mmdebstrap's folders belong to"
if [ -n "$cross" ] && ! scripts/userns.py unshare --mount mount -t binfmt_misc binfmt_misc /mnt 2>/dev/null; then
	setup_fail "--arch arm64: no binfmt_misc in a user namespace, which Linux 6.7 brought"
fi
if [ -n "$cross" ]; then machine=aarch64; else machine=$(uname -m); fi
name=uroce-$version-linux-$machine
work=$(mktemp -d /tmp/uroce-release.XXXXXX)
finish() {
	umount -l "$work/podman/overlay" 2>/dev/null || true # podman leaves it
	rm -rf "$work"
}
trap finish EXIT

logged() { # logged WHAT COMMAND..: shows the end of the output if the command fails
	setup_say "$1"
	setup_run "$work/log" "$1" "${@:2}" || { tail -40 "$work/log" >&2; setup_fail "$1: failed"; }
}

# debian RELEASE FOLDER [OPTION..]: files of a Debian. An archived mirror's lists have expired.
debian() {
	logged "files of Debian $1" mmdebstrap --quiet '--aptopt=Acquire::Check-Valid-Until "false"' "${@:3}" "$1" "$2" "$mirror"
}

# prepare RELEASE: sets root to its folder with this source in /srv/uroce and the packages that it needs.
prepare() {
	root=$roots/$1$cross
	if [ ! -e "$root" ]; then
		mkdir -p "$roots"
		if [ -n "$cross" ]; then
			debian "$1" "$work/$1" --variant=minbase --architectures="$native,$arch" --include=qemu-user-static
		else
			debian "$1" "$work/$1" --variant=minbase
		fi
		mv "$work/$1" "$root"
	fi
	mkdir -p "$root/srv/uroce"
	git ls-files -z | tar --null --ignore-failed-read -cf - -T - 2>/dev/null | tar -xf - -C "$root/srv/uroce"
	inside "packages for the build on $1" "apt-get -q update
		apt-get -q -y --no-install-recommends install build-essential ${cross:+crossbuild-essential-$arch}
		apt-get -q -y --no-install-recommends --host-architecture $arch build-dep ./"
}

inside() { # inside WHAT SCRIPT: runs a script in the root's source folder
	logged "$1" scripts/enter.sh "$root" bash -ec "cd /srv/uroce; $2"
}

deb() { # deb RELEASE FOLDER
	prepare "$1"
	inside "packages of $1" "rm -rf /srv/packages; mkdir /srv/packages
		tar -c --exclude='uroce/build*' -C /srv uroce | tar -x -C /srv/packages
		cd /srv/packages/uroce
		UROCE_RUNS=$cross dpkg-buildpackage --host-arch $arch -b -us -uc"
	mkdir -p "$output/$2"
	cp "$root"/srv/packages/*.deb "$output/$2"
}

# The linker takes the newest version of each symbol that libc has: link with Debian 11's.
old_glibc() {
	local from=$work/bullseye to=$root$glibc lib
	[ ! -e "$to" ] || return 0
	debian bullseye "$from" --variant=extract --include=libc6-dev --architectures="$arch"
	mkdir "$work/glibc"
	for lib in c.so.6 m.so.6 pthread.so.0 dl.so.2 rt.so.1; do
		cp -L "$from"/lib/*-linux-gnu/lib$lib "$work/glibc"
		[ $lib = c.so.6 ] || ln -s lib$lib "$work/glibc/lib${lib%.[0-9]}"
	done
	cp -L "$from"/lib/*-linux-gnu/ld-linux-*.so.[0-9] "$from"/usr/lib/*-linux-gnu/{Scrt1.o,libc_nonshared.a} "$work/glibc"
	sed 's,/[^ ]*/,,g' "$from"/usr/lib/*-linux-gnu/libc.so >"$work/glibc/libc.so"
	mv "$work/glibc" "$to"
}

tarball() {
	local target='' options='' prefix='' made files
	[ "$arch" != amd64 ] || target=x86-64-v2
	if [ -n "$cross" ]; then
		target=armv8-a+crc prefix=aarch64-linux-gnu-
		options="--cross-file scripts/cross/aarch64.ini --cross-file scripts/cross/run.ini"
	fi
	prepare bookworm
	old_glibc
	made=$root/srv/made/usr/local
	inside "programs for $machine" "[ -e build-static/build.ninja ] ||
			meson setup build-static --prefix=/usr/local --sbindir=bin --libdir=lib --sysconfdir=etc \
			-Dtests=false -Dman=enabled -Dstatic=$glibc -Dtarget=$target $options
		rm -rf /srv/made
		ninja -C build-static; DESTDIR=/srv/made meson install -C build-static --no-rebuild --quiet
		cd /srv/made/usr/local
		cp -L /usr/lib/$machine-linux-gnu/libisal.so.2 lib/
		mkdir -p share/doc/uroce/licenses; cp /srv/uroce/LICENSE /srv/uroce/README.md share/doc/uroce
		for package in libdpdk-dev libisal2 libjansson4 libseccomp2 libssl3 libxdp1 libbpf1 libelf1 zlib1g libnuma1 libbsd0 libmd0 libc6; do
			cp /usr/share/doc/\$package/copyright share/doc/uroce/licenses/\$package
		done
		find bin lib libexec -type f -exec sh -c '${prefix}strip --strip-unneeded \"\$@\" 2>/dev/null' sh {} + || true"
	mapfile -t files < <(find "$made"/{bin,lib,libexec} -type f -exec sh -c 'head -c4 "$1" | grep -q ELF' sh {} \; -print)
	/usr/bin/python3 test/lint/symbols.py "$made/lib/libibverbs/liburoce-rdmav34.so" "${files[@]}"
	setup_say "$output/$name.tar.xz"
	mkdir -p "$output"
	tar -cJf "$output/$name.tar.xz" --transform "s,^\.,$name," --sort=name --owner=0 --group=0 --numeric-owner \
		--mtime="$(git log -1 --format=@%ct)" -C "$made" .
}

image() {
	local podman=(podman --root "$work/podman" --runroot "$work/podman-run" --cgroup-manager cgroupfs) context=$work/context
	[ -e "$output/$name.tar.xz" ] || tarball
	mkdir "$context"
	cp "$output/$name.tar.xz" "$context"
	# what the registry has under this name
	debian bookworm "$work/base.tar" --variant=minbase --include=usr-is-merged \
		--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --dpkgopt=path-exclude=/usr/share/{doc,info,locale,man}/'*' \
		'--dpkgopt=path-include=/usr/share/doc/*/copyright' --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*'
	logged "base of the image" "${podman[@]}" import "$work/base.tar" docker.io/library/debian:bookworm-slim
	one_image image uroce config/Containerfile
	one_image kubernetes uroce-kubernetes config/kubernetes/Containerfile
	"${podman[@]}" rmi -af >/dev/null
}

one_image() { # one_image PART NAME CONTAINERFILE: builds the image NAME and saves it; for image()
	local file=$output/uroce-$version-$1-$machine.tar
	logged "image $2" "${podman[@]}" build --pull=never --network host --isolation chroot -t "localhost/$2:$version" \
		--build-arg "VERSION=$version" -f "$3" "$context"
	rm -f "$file"
	logged "$file" "${podman[@]}" save -q --format oci-archive -o "$file" "localhost/$2:$version"
}

for part in "${what[@]}"; do
	case $part in
	deb12) deb bookworm debian12 ;;
	deb13) deb trixie debian13 ;;
	debsid) deb sid debian-sid ;;
	*) "$part" ;;
	esac
done
setup_say "in $output: $(cd "$output" && find . -type f -printf '%P (%s bytes) ')"
