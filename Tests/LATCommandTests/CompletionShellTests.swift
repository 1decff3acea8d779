import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import lat

/// The completion scripts in real shells.
@Suite(.timeLimit(.minutes(1))) struct CompletionShellTests {
    private let folder: TemporaryDirectory

    init() throws {
        folder = try TemporaryDirectory()
        _ = try folder.writeTable(
            """
            {
              domains: { demo: { baseURL: "http://h" } },
              servers: {
                "user.detail": { domain: "demo", path: "users/{id}", method: "GET" },
                "user.save": { domain: "demo", path: "users/{id}", method: "PUT" },
              },
            }
            """)
        _ = try folder.write(Data("x".utf8), to: "photos/one two.png")
    }

    /// Command lines up to the cursor, and what is proposed there.
    private static let cases: [(line: String, proposed: [String])] = [
        ("lat dev", ["device"]), ("lat start us", ["user.detail", "user.save"]),
        ("lat start user.detail ", ["id="]), ("lat probe d", ["demo"]),
        ("lat domains explain user.d", ["user.detail"]), ("lat device --format ", ["text", "json"]),
        ("lat start --tab", ["--table"]), ("lat start --nothing-like-this", []),
    ]

    // MARK: bash

    /// Calls the function as bash does: bash splits the words at `=` and `:` too.
    private func bash(_ words: [String], line: String) async throws -> [String] {
        let quoted = words.map { "'\($0)'" }.joined(separator: " ")
        let script = """
            source <(lat completions bash)
            [[ "$(complete -p lat)" == "complete -F _lat lat" ]] || exit 9
            COMP_LINE='\(line)' COMP_POINT=${#COMP_LINE} COMP_WORDS=(\(quoted)) COMP_CWORD=\(words.count - 1)
            COMP_POINT=${#COMP_LINE}
            _lat
            ((${#COMPREPLY[@]} == 0)) || printf '%s\\n' "${COMPREPLY[@]}"
            """
        let result = try await Shell.run("/bin/bash", script, in: folder)
        #expect(result.exitCode == 0 && result.err == "", "\(result.err)")
        return result.text.split(separator: "\n").map(String.init)
    }

    @Test(.needs("bash"), arguments: cases) func bashProposes(_ line: String, _ proposed: [String]) async throws {
        let words = line.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        #expect(try await bash(words, line: line) == proposed)
    }

    @Test(.needs("bash")) func bashJoinsTheWordsThatItSplit() async throws {
        #expect(try await bash(["lat", "device", "--format", "=", "js"], line: "lat device --format=js") == ["json"])
        #expect(try await bash(["lat", "device", "--format", "="], line: "lat device --format=") == ["text", "json"])
        #expect(
            try await bash(["lat", "upload", "u", "-F", "img", "=", "pho"], line: "lat upload u -F img=pho") == [
                "photos"
            ])
        #expect(
            try await bash(["lat", "domains", "check", "photos/on"], line: "lat domains check photos/on")
                == ["photos/one two.png"])
        #expect(
            try await bash(["lat", "doctor", "http", ":", "//h/", "--form"], line: "lat doctor http://h/ --form")
                == ["--format"])
    }

    /// Types a line and the Tab key. Then the line becomes the argument of `echo`, so that it can be read.
    private func typed(_ shell: String, _ arguments: [String], setUp: String, _ line: String) async throws -> String {
        let process = try LatProcess(
            arguments, environment: Shell.environment(folder).merging(["INPUTRC": "/dev/null"]) { $1 }, columns: 80,
            isTyped: true, in: folder.path, program: shell)
        process.type("\(setUp); echo REA''DY\n")
        await process.waitForOutput("READY")
        // The quotes distinguish the output from the echo of the typed line.
        process.type("\(line)\t\u{1}echo \u{5}FI''N\n")
        await process.waitForOutput("FIN\r\n")
        process.type("exit\n")
        let lines = await process.result.text.split(whereSeparator: \.isNewline)
        return lines.last { $0.hasSuffix("FIN") && !$0.contains("echo") }.map { String($0.dropLast(3)) } ?? ""
    }

    @Test(.needs("bash")) func tabCompletesInBash() async throws {
        let line = try await typed(
            "/bin/bash", ["--norc", "--noprofile", "-i"], setUp: "PS1='> '; source <(lat completions bash)",
            "lat start user.d\tid=4 --table=Con\tdom")
        #expect(line.trimmed == "lat start user.detail id=4 --table=Config/domains.json5")
    }

    // MARK: zsh

    @Test(.needs("zsh")) func tabCompletesInZsh() async throws {
        let setUp = "PS1='> '; autoload -U compinit; compinit -u -D; source <(lat completions zsh)"
        for (line, whole) in [
            ("lat start user.d", "lat start user.detail"), ("lat start user.save ", "lat start user.save id="),
            ("lat device --format=j", "lat device --format=json"), ("lat start --tab", "lat start --table"),
            ("lat upload u -F img=pho", "lat upload u -F img=photos"),
            ("lat domains check photos/on", "lat domains check photos/one two.png"),
        ] {
            let shown = try await typed("/usr/bin/zsh", ["-f", "-i"], setUp: setUp, line)
            #expect(shown.trimmed == whole)
        }
    }

    @Test(.needs("zsh")) func zshShowsExplanations() async throws {
        let process = try LatProcess(
            ["-f", "-i"], environment: Shell.environment(folder), columns: 80, isTyped: true, in: folder.path,
            program: "/usr/bin/zsh")
        process.type("autoload -U compinit; compinit -u -D; source <(lat completions zsh); echo REA''DY\n")
        await process.waitForOutput("READY")
        process.type("lat start \t\t")
        await process.waitForOutput("-- PUT demo users/{id}")
        process.send(signal: SIGHUP)
        let text = await process.result.text
        #expect(text.contains("user.detail  -- GET demo users/{id}") && text.contains("user.save"))
    }

    // MARK: fish

    @Test(.needs("fish")) func fishProposes() async throws {
        var script = "lat completions fish | source\n"
        for test in Self.cases { script += "complete -C '\(test.line)'; echo ==\n" }
        let result = try await Shell.run("/usr/bin/fish", script, in: folder)
        #expect(result.exitCode == 0 && result.err == "", "\(result.err)")
        let answers = result.text.split(separator: "==\n", omittingEmptySubsequences: false).map { answer in
            answer.split(separator: "\n").map { String($0.prefix { $0 != "\t" }) }
        }
        #expect(answers.count == Self.cases.count + 1)
        for (test, answer) in zip(Self.cases, answers) { #expect(answer.sorted() == test.proposed.sorted()) }
        #expect(result.text.contains("user.save\tPUT demo users/{id}"))
    }

    @Test(.needs("fish")) func fishProposesFiles() async throws {
        let script = """
            lat completions fish | source
            complete -C 'lat upload u -F img=pho'
            complete -C 'lat start --table=Con'
            complete -C 'lat domains check photos/on'
            """
        let result = try await Shell.run("/usr/bin/fish", script, in: folder)
        for text in ["img=photos/", "--table=Config/", "photos/one two.png"] {
            #expect(result.text.contains(text), "\(result.text)")
        }
    }

    // MARK: Bad input

    @Test(arguments: [
        (["completions"], "the shell is missing; write lat completions and then bash, zsh or fish"),
        (["completions", "powershell"], "there are no completions for \"powershell\"; write bash, zsh or fish"),
        (["completions", "zsh", "x"], "\"x\" is one argument too many; write lat completions zsh"),
        (["man", "lat"], "\"lat\" is one argument too many; write lat man | man -l - to read the page"),
    ])
    func mistakesNameTheNextStep(_ arguments: [String], _ message: String) {
        #expect(throws: UsageError(message)) { try Invocation(arguments) }
    }
}

extension String {
    /// Without escape sequences of a terminal, and blanks at the ends.
    fileprivate var trimmed: String {
        replacing(/\u{1B}\[[0-9;?]*[A-Za-z]/, with: "").split(separator: " ").joined(separator: " ")
    }
}
