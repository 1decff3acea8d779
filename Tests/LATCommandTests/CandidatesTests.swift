import LATNetworking
import Testing

@testable import lat

/// The proposals of completions.
@Suite struct CandidatesTests {
    private static let table = try? DomainTable(
        json5: """
            {
              domains: { demo: { baseURL: "http://h", environments: { dev: "http://d", staging: "http://s" } } },
              servers: {
                "user.detail": { domain: "demo", path: "teams/{team}/users/{id}", method: "GET" },
                "user.save": { domain: "demo", path: "users/{id}", method: "PUT",
                  documented: { parameters: { note: "string?", age: "integer", name: "string" } } },
              },
            }
            """, environment: nil)

    private func candidates(_ words: String...) -> Candidates {
        Candidates(for: words) { _ in Self.table }
    }

    private func names(_ words: String...) -> [String] {
        Candidates(for: words) { _ in Self.table }.list.map(\.name)
    }

    @Test func firstWordIsACommand() {
        #expect(names("") == Commands.all.map { $0.name } + ValueKind.methods)
        #expect(names("help", "") == Commands.all.map { $0.name })
        #expect(
            names("-").starts(with: ["--help", "--version"])
                && Set(names("-")).isSuperset(of: ["--timeout", "--header"]))
        #expect(names("-").count == Set(names("-")).count)
        #expect(candidates("").list[0].help == RequestCommand.summary)
    }

    @Test func optionsMethodAndURLComeBeforeTheURL() {
        #expect(names("--timeout", "3s", "").contains("POST") && names("--timeout", "3s", "").contains("http://h"))
        #expect(names("GET", "") == ["http://h"] && names("-v", "GET", "") == ["http://h"])
        #expect(names("--ti").contains("--timeout") && candidates("GET", "--cache", "").list.count > 3)
        #expect(candidates("GET", "http://h", "a@").source == .files)
        #expect(Candidates(for: ["GET", ""]) { _ in nil }.list.contains { $0.name == "--header" })
    }

    @Test func wordAfterAnOptionalValueIsAnOperand() {
        #expect(names("upload", "http://h", "--resumable", "") == ["tus", "standard", "s3"])
        #expect(candidates("upload", "http://h", "--resumable", "tus", "").source == .files)
        let options = names("upload", "http://h", "--resumable", "a.bin", "--")
        #expect(options.contains("--part-size") && !options.contains("--resumable"))
    }

    @Test func namesComeFromTheTable() {
        #expect(names("start", "") == ["user.detail", "user.save"])
        #expect(candidates("start", "u").list[0].help == "GET demo teams/{team}/users/{id}")
        #expect(names("domains", "explain", "") == ["user.detail", "user.save", "demo"])
        #expect(names("probe", "demo", "") == ["demo"])
        #expect(names("start", "--environment", "") == ["dev", "staging"])
        #expect(names("start", "--environment=") == ["--environment=dev", "--environment=staging"])
    }

    @Test func pathParametersOfTheRowAreProposedOnce() {
        #expect(names("start", "user.detail", "") == ["team=", "id="])
        #expect(names("start", "user.detail", "team=a", "") == ["id="])
        #expect(names("start", "user.detail", "-p", "id=2", "-p", "") == ["team="])
    }

    @Test func documentedParametersAreProposedTheRequiredFirst() {
        #expect(names("start", "user.save", "") == ["id=", "age:=", "name=", "note="])
        #expect(names("start", "user.save", "age:=3", "-p", "name=a", "") == ["id=", "note="])
        #expect(
            candidates("start", "user.save", "id=1", "").list.map(\.help) == [
                "integer, required", "string, required", "string",
            ])
    }

    @Test func tableOfTheCommandLineIsRead() {
        var read: [TableArgument] = []
        _ = Candidates(for: ["start", "--table=t.json5", "--environment", "dev", ""]) { table in
            read.append(table)
            return nil
        }
        #expect(read == [TableArgument(file: "t.json5", environment: "dev")])
    }

    @Test func unusableTableProposesOnlyOptions() {
        let candidates = Candidates(for: ["start", ""]) { _ in nil }
        #expect(candidates.list.map(\.name).contains("--table"))
        #expect(Candidates(for: ["start", "us"]) { _ in nil }.list.isEmpty)
    }

    @Test func optionsAreNotProposedTwice() {
        #expect(names("probe", "-").contains("--watch") && !names("probe", "-w", "-").contains("--watch"))
        #expect(names("start", "-p", "a=1", "-").contains("--parameter"))
        #expect(names("probe", "--", "-") == ["demo"])
        let format = candidates("device", "--f").list.first { $0.name == "--format" }
        #expect(format?.help == "json prints one object for programs, with all details")
    }

    @Test func valuesFollowTheDeclaredKind() {
        #expect(names("device", "--format", "") == ["text", "json"])
        #expect(names("download", "http://h/", "--existing", "") == ["overwrite", "skip", "fail"])
        #expect(names("cache", "explain", "u", "--cache", "").contains("networkElseCache"))
        #expect(names("domains", "") == ["check", "list", "explain", "diff", "push", "pull"])
        #expect(candidates("start", "--timeout", "").list.isEmpty)
    }

    @Test(arguments: [
        (["start", "--table", "Con"], "files", ""), (["start", "--table=Con"], "files", "--table="),
        (["upload", "u", "-F", "img=ph"], "files", "img="), (["upload", "u", "-F", "img"], "words", ""),
        (["cache", "report", "--directory", ""], "folders", ""), (["domains", "check", ""], "files", ""),
        (["domains", "push", "--sign", "ke"], "files", ""), (["request", "POST", "u", "-d", "@bo"], "files", "@"),
        (["upload", "u", "--file=a=b"], "files", "--file=a="),
    ])
    func shellProposesFiles(_ words: [String], _ source: String, _ before: String) {
        let candidates = Candidates(for: words) { _ in nil }
        #expect(candidates.source.rawValue == source && candidates.before == before)
        #expect(candidates.lines[0] == "\(source) \(before)")
    }
}
