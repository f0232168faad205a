# SPDX-License-Identifier: BSD-3-Clause
# bash completion of uroced, urocectl, uroce-run and uroce-bench. The words come from the program's own --help, so
# that they are those of the installed version.
# shellcheck shell=bash disable=SC2207
_uroce_help_words() { # PROGRAM PATTERN
	"$1" --help 2>/dev/null | grep -oE -e "$2"
}

_uroce() {
	local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} name words
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
		case $before in
		show) words=$(_uroce_help_words "$program" '^WHAT: .*' | cut -d: -f2 | tr -d '[]A-Z') ;;
		impair | capture | dev) words=$("$program" --json show device 2>/dev/null |
			grep -oE '"name": *"[^"]+"' | cut -d'"' -f4) ;;
		*) words=$("$program" --help 2>/dev/null | sed -n 's/^\(usage:\|      \) urocectl\( \[[^]]*\]\)* //p' |
			cut -d' ' -f1) ;;
		esac
	elif [[ $name == uroce-bench && $COMP_CWORD == 1 ]]; then
		words=$(_uroce_help_words "$program" '^  [a-z]+  ' | tr -d ' ')
	elif [[ $name == uroce-run ]]; then
		COMPREPLY=($(compgen -c -- "$word"))
		return
	fi
	COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _uroce uroced urocectl uroce-run uroce-bench
