import DomainTables
import Testing

@testable import DomainTableGenerator

@Suite("DomainTableGenerator")
struct GeneratorTests {
    @Test(arguments: [
        ("user.detail", "userDetail"), ("daxiang", "daxiang"), ("get-token", "getToken"),
        ("user_list_all", "userListAll"),
        ("GET.token", "getToken"), ("URLCheck", "urlCheck"), ("v1/users/{id}", "v1UsersId"), ("2fa", "_2fa"),
        ("default", "`default`"), ("self", "self_"), ("all", "all_"), ("大象", "大象"), ("a b", "aB"), ("init", "init_"),
        ("userID", "userID"), ("User", "user"),
    ])
    func namesBecomeSwiftNames(_ name: String, _ expected: String) { #expect(SwiftName.member(for: name) == expected) }

    @Test(arguments: ["", "...", "-", "😀"])
    func namesWithoutLettersHaveNoSwiftName(_ name: String) { #expect(SwiftName.member(for: name) == nil) }

    private func generate(_ table: String, isPublic: Bool = false) -> NameGenerator {
        var arguments = GeneratorArguments(tables: ["/p/Config/domains.json5"])
        arguments.root = "/p/"
        arguments.isPublic = isPublic
        var generator = NameGenerator(arguments)
        generator.read(Array(table.utf8), name: "/p/Config/domains.json5")
        return generator
    }

    @Test func membersNameFileAndLine() {
        let table =
            "{\n  domains: { a: { baseURL: 'http://u:p@h' } },\n  servers: { 'user.\\\"x': { domain: 'a', path: 'x/{id}', method: 'get' } },\n}"
        let generator = generate(table, isPublic: true)
        #expect(!generator.hasFailed)
        #expect(
            generator.text == #"""
                // Generated from Config/domains.json5 by DomainTablePlugin. Edit the table, not this file.

                public import LATNetworking

                /// The rows of `domains`.
                extension DomainName {
                    /// `http://u:***@h`, Config/domains.json5:2.
                    public static let a: DomainName = "a"

                    /// All rows, in the order of the table.
                    public static let all: [DomainName] = [.a]
                }

                /// The rows of `servers`.
                extension ServerName {
                    /// `GET x/{id}` of `a`, Config/domains.json5:3.
                    public static let userX: ServerName = "user.\"x"

                    /// All rows, in the order of the table.
                    public static let all: [ServerName] = [.userX]
                }

                """#)
    }

    @Test func collidingNamesReportBothLines() {
        let generator = generate(
            "{\n domains: { a: { baseURL: 'http://h' } },\n servers: {\n  'u.x': { domain: 'a', path: '' },\n  u_x: { domain: 'a', path: '' },\n } }"
        )
        #expect(generator.hasFailed)
        #expect(
            generator.problems == [
                """
                /p/Config/domains.json5:5:3: error: the servers "u.x" (line 4) and "u_x" both become uX in Swift; rename one
                  u_x: { domain: 'a', path: '' },
                  ^~~
                """
            ])
    }

    @Test func brokenTableFails() {
        let generator = generate("{ domains: { a: { basURL: 'http://h' } } }")
        #expect(generator.hasFailed)
        #expect(
            generator.problems.first?.hasPrefix("/p/Config/domains.json5:1:19: error: unknown key \"basURL\"") == true)
    }

    @Test func invalidArgumentsAreRejected() {
        #expect(throws: GeneratorArguments.Problem.self) { try GeneratorArguments([]) }
        #expect(throws: GeneratorArguments.Problem.self) { try GeneratorArguments(["--output"]) }
        #expect(throws: GeneratorArguments.Problem.self) { try GeneratorArguments(["--acess", "public"]) }
        #expect(throws: GeneratorArguments.Problem.self) { try GeneratorArguments(["--access", "open", "t"]) }
    }
}
