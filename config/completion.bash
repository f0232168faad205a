# SPDX-License-Identifier: BSD-3-Clause
# bash completion of uroced, urocectl, uroce-run and uroce-bench. Options, commands and topics come from the program's
# own --help, so that they are those of the installed version.
# shellcheck shell=bash disable=SC2207
_uroce_help_words() { # PROGRAM PATTERN
	"$1" --help 2>/dev/null | grep -oE -e "$2"
}

# Topics of show and watch: the indented words below "show WHAT".
_uroce_topics() { # PROGRAM
	"$1" --help 2>/dev/null | sed -n '/^show WHAT/,/^$/s/^  \([a-z_]*\)  *[^ ].*/\1/p'
}

# The filters of a topic: the words in its parentheses.
_uroce_filters() { # PROGRAM TOPIC
	"$1" --help 2>/dev/null | sed -n "/^show WHAT/,/^\$/s/^  $2  *.*(\\(.*\\)).*/\\1/p" | tr ',' '\n' | awk '{ print $1 }'
}

# Values of a member of the rows of a topic: device names, QPNs ..
_uroce_values() { # PROGRAM TOPIC MEMBER
	"$1" --json show "$2" 2>/dev/null | sed -n "s/^ *\"$3\": \"\\{0,1\\}\\([^\",[{]*\\)\"\\{0,1\\},\\{0,1\\}\$/\\1/p" | sort -u
}

_uroce_rdma() { # PROGRAM WORD.. that stand after rdma
	local program=$1 object
	shift
	case $# in
	0) echo dev link statistic res ;;
	1) echo show list ;;
	2)
		_uroce_values "$program" device device
		[ "$1" != res ] || echo qp cq mr pd srq cm_id ctx
		;;
	*)
		object=$3
		case ${!#} in
		dev | link) _uroce_values "$program" device device ;;
		*) [ $(($# % 2)) = 0 ] || {
			echo dev link pid comm
			case $object in
			qp) echo lqpn pdn rqpn type state rq-psn sq-psn path-mig-state ;;
			cq) echo cqn cqe users ctxn ;;
			mr) echo mrn rkey lkey iova mrlen pdn ;;
			pd) echo pdn users ctxn ;;
			srq) echo srqn type pdn ;;
			cm_id) echo cm-idn lqpn qp-type state ps src-addr dst-addr ;;
			ctx) echo ctxn ;;
			esac
		} ;;
		esac
		;;
	esac
}

# What may follow the words of a urocectl command.
_uroce_urocectl() { # PROGRAM WORD..
	local program=$1 command=${2-} last=${!#}
	if [ $# = 1 ]; then
		"$program" --help 2>/dev/null |
			sed -n 's/^\(usage:\|      \) urocectl\( \[[^]]*\]\)* \([a-z].*\)/\3/p' | tr -d '|' | awk '{ print $1; if (/uninstall/) print "uninstall" }'
		return
	fi
	case $last in
	dev) _uroce_values "$program" device device && return ;;
	qpn) _uroce_values "$program" qp qpn && return ;;
	pid) _uroce_values "$program" client pid && return ;;
	uid) _uroce_values "$program" client uid && return ;;
	interval | count | index) return ;;
	esac
	case $command in
	show | watch)
		if [ $# = 2 ]; then
			_uroce_topics "$program"
			return
		fi
		case $last in
		state) case $3 in neigh) echo known asking ;; cm) echo IDLE BOUND LISTEN CONNECT ;; *) echo RESET INIT RTR RTS SQD SQE ERR ;; esac ;;
		type) [ "$3" = gid ] && echo RoCEv2 || echo RC UC UD ;;
		worker) [ $# -gt 3 ] && _uroce_values "$program" worker worker && return ;;
		esac
		case $last in
		state | type) return ;;
		esac
		_uroce_filters "$program" "$3"
		[ "$command" = show ] || echo interval count
		;;
	top)
		if [ "$last" = sort ]; then
			echo tx rx sends receives pid qpn
		else
			echo interval count sort
		fi
		;;
	trace)
		[ $# != 2 ] || _uroce_values "$program" trace qpn
		echo dev pid uid qpn state type
		;;
	set)
		case $last in
		set) "$program" set help 2>/dev/null | sed -n 's/^  \([a-z-]*\) .*/\1/p' ;;
		addr) echo add del ;;
		cc) echo fixed dcqcn dcqcn-paper swift timely ;;
		worker) echo auto && _uroce_values "$program" worker worker ;;
		qp) _uroce_values "$program" qp qpn ;;
		pkey) echo none ;;
		probe | balance) echo on off ;;
		log-level) echo error warning notice info debug ;;
		quota) _uroce_values "$program" quota resource ;;
		*)
			case $3 in
			log-level | quota | balance) ;;
			worker) echo dev qp ;;
			*) echo dev index ;;
			esac
			;;
		esac
		;;
	addr)
		case $# in
		2) echo add del ;;
		3) [ "$last" != del ] || _uroce_values "$program" port gid ;;
		*) echo dev ;;
		esac
		;;
	pkey) if [ $# = 2 ]; then echo set del; else echo dev index; fi ;;
	cc | probe)
		case $#-$command in
		2-*) echo set ;;
		3-cc) echo fixed dcqcn dcqcn-paper swift timely ;;
		3-probe) echo on off ;;
		*) [ "$last" = qp ] && _uroce_values "$program" qp qpn || echo dev qp ;;
		esac
		;;
	impair | capture)
		case $#-$command in
		2-*) _uroce_values "$program" device device ;;
		3-impair) echo set show clear ;;
		3-capture) echo start show stop ;;
		esac
		;;
	rdma)
		shift 2
		_uroce_rdma "$program" "$@"
		;;
	esac
}

# The words before the cursor without options and their values: the command and what follows it.
_uroce_plain_words() {
	local i
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--socket | --iterations | -n) i=$((i + 1)) ;;
		-*) ;;
		*) printf '%s\n' "${COMP_WORDS[i]}" ;;
		esac
	done
}

_uroce() {
	local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} name words plain
	name=${program##*/}
	COMPREPLY=()
	case $before in
	--config | --socket | --provider | FILE | start)
		COMPREPLY=($(compgen -f -- "$word"))
		return
		;;
	esac
	if [[ $word == -* ]]; then
		words=$(_uroce_help_words "$program" '(^|[[ ])--[a-z][a-z-]+' | tr -d ' [')
	elif [[ $name == urocectl ]]; then
		mapfile -t plain < <(_uroce_plain_words)
		words=$(_uroce_urocectl "$program" "${plain[@]}")
	elif [[ $name == uroce-bench && $COMP_CWORD == 1 ]]; then
		words=$(_uroce_help_words "$program" '^  [a-z]+  ' | tr -d ' ')
	elif [[ $name == uroce-run ]]; then
		COMPREPLY=($(compgen -c -- "$word"))
		return
	fi
	COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _uroce uroced urocectl uroce-run uroce-bench
