/// The scripts for the shells. Each passes the words of the command line to `lat completions candidates`, and the
/// answer to the shell.
enum CompletionScript {
    static func text(for shell: CompletionsCommand.Shell) -> String {
        switch shell {
        case .bash: bash
        case .zsh: zsh
        case .fish: fish
        }
    }

    private static let bash = #"""
        # Completes lat in bash. In ~/.bashrc: source <(lat completions bash)
        _lat() {
            local line="${COMP_LINE:0:COMP_POINT}" word current cut head before path
            local words=() lines=()
            # bash also splits words at = : and @. This joins them again.
            for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
                if ((${#words[@]} == 0)) || [[ "$line" == [[:space:]]* ]]; then
                    line="${line#"${line%%[![:space:]]*}"}"
                    words+=("")
                fi
                [[ "$line" == "$word"* ]] || word="$line"
                words[-1]+="$word"
                line="${line#"$word"}"
            done
            current="${words[-1]}"
            # bash replaces only the text after the last of these characters.
            [[ "$word" == [=:@] ]] && word=""
            cut="${current%"$word"}"
            mapfile -t lines < <("${words[0]/#\~/$HOME}" completions candidates -- "${words[@]:1}" 2>/dev/null)
            COMPREPLY=()
            head="${lines[0]-}"
            before="${head#* }"
            case "$head" in
                files* | folders*)
                    path="${current#"$before"}"
                    compopt -o filenames 2>/dev/null
                    local action=file
                    [[ "$head" == folders* ]] && action=directory
                    mapfile -t COMPREPLY < <(compgen -A "$action" -- "${path#[\"\']}")
                    COMPREPLY=("${COMPREPLY[@]/#/"$before"}")
                    ;;
                words*)
                    for line in "${lines[@]:1}"; do
                        word="${line%%$'\t'*}"
                        [[ "$word" == "$current"* ]] && COMPREPLY+=("$word")
                    done
                    [[ ${#COMPREPLY[@]} == 1 && "${COMPREPLY[0]}" == *[=:] ]] && compopt -o nospace 2>/dev/null
                    ;;
            esac
            COMPREPLY=("${COMPREPLY[@]#"$cut"}")
        }
        complete -F _lat lat

        """#

    private static let zsh = #"""
        #compdef lat
        # Completes lat in zsh. In ~/.zshrc, below compinit: source <(lat completions zsh)
        _lat() {
            local -a lines given whole open
            local line value head before
            given=("${(@Q)words[1,CURRENT-1]}")
            lines=("${(@f)$("${given[1]/#\~/$HOME}" completions candidates -- \
                "${(@)given[2,-1]}" "${(Q)IPREFIX}${(Q)PREFIX}" 2>/dev/null)}")
            head=$lines[1]
            before=${head#* }
            case $head in
                files*) compset -P "${(b)before}"; _files ;;
                folders*) compset -P "${(b)before}"; _files -/ ;;
                words*)
                    for line in "${(@)lines[2,-1]}"; do
                        value=${line%%$'\t'*}
                        line="${value//:/\\:}:${line#*$'\t'}"
                        # After = or : zsh adds no blank, because a value is typed there.
                        if [[ $value == *[=:] ]]; then open+=("$line"); else whole+=("$line"); fi
                    done
                    _describe lat whole -- open -S ''
                    ;;
            esac
        }
        # As a file of $fpath this is the function itself.
        if [[ $funcstack[1] == _lat ]]; then _lat "$@"; else compdef _lat lat; fi

        """#

    private static let fish = #"""
        # Completes lat in fish. In ~/.config/fish/config.fish: lat completions fish | source
        function __lat_candidates
            set -l given (commandline -opc)
            set -l current (commandline -ct)
            set -l lines ($given[1] completions candidates -- $given[2..-1] "$current" 2>/dev/null)
            set -l head (string split -m 1 ' ' -- $lines[1])
            set -l path (string sub -s (math 1 + (string length -- "$head[2]")) -- "$current")
            switch "$head[1]"
                case files
                    for found in (__fish_complete_path "$path")
                        echo $head[2]$found
                    end
                case folders
                    for found in (__fish_complete_directories "$path")
                        echo $head[2]$found
                    end
                case words
                    for line in $lines[2..-1]
                        echo $line
                    end
            end
        end
        complete -c lat -f -a '(__lat_candidates)'

        """#
}
