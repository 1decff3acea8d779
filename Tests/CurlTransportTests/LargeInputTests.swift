@testable import CurlTransport
import FoundationEssentials
@testable import HTTPCore
import LATTesting
import TestSupport
import Testing

/// Parsers get inputs that no honest server or file has: deeply nested, in one long piece, and in many pieces. The sizes are
/// so large that work which grows with their square would take many minutes.
@Suite(.timeLimit(.minutes(5)), .serialized) struct LargeInputTests {
    private static let (depth, long, many) = (5_000, 1 << 18, 40_000)
    private let now = Date(timeIntervalSince1970: 1_000)
    private let later = "20991231 23:59:59"

    private func repeated(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }

    // MARK: Cookies

    @Test func largeSetCookieIsRefused() {
        #expect(SetCookie("a=" + repeated("x", Self.long), now: 0) == nil)
        #expect(SetCookie("a=b; path=/" + repeated("x", Self.long), now: 0)?.path == nil)
        let attributes = SetCookie("a=b" + repeated("; path=/x", Self.many) + "; secure", now: 0)
        #expect(attributes?.path == "/x" && attributes?.isSecure == true)
        #expect(SetCookie(repeated(";", Self.long), now: 0) == nil)
        #expect(SetCookie("a=b; max-age=" + repeated("9", 1_000), now: 0)?.expires != nil)
    }

    @Test(arguments: ["h{}.test", "h.test"]) func cookieFileIsReadUpToItsLimits(_ host: String) {
        let many = 3 * CookieTable.totalLimit
        let lines = (0..<many).map { number in
            "\(host.replacing("{}", with: "\(number)"))\tFALSE\t/\tFALSE\t4000000000\tn\(number)\tv\n"
        }
        let cookies = NetscapeCookie.cookies(lines.joined() + repeated("x", Self.long))
        #expect(cookies.count == many)
        var table = CookieTable()
        for cookie in cookies { table.set(cookie, now: now) }
        let limit = host == "h.test" ? CookieTable.domainLimit : CookieTable.totalLimit
        #expect((1...limit).contains(table.count))
        // The newest cookie is among those that stay.
        let place = CookieTable.Place(host: cookies.last?.domain ?? "", path: "/", isSecure: true)
        #expect(table.field(for: place, now: now)?.contains("n\(many - 1)=v") == (limit == CookieTable.totalLimit))
    }

    // MARK: Files

    @Test func largeNetrcIsRead() throws {
        let machines = (0..<Self.many).map { "machine h\($0) login u\($0) password p\n" }.joined()
        let netrc = try Netrc(machines + "machine last login " + repeated("u", Self.long) + " password p\n")
        #expect(netrc.credentials(forHost: "h\(Self.many - 1)") == .basic(user: "u\(Self.many - 1)", password: "p"))
        #expect(netrc.credentials(forHost: "last") != nil)
        // A quoted word, a comment and a macro in one piece; combining characters form one long character.
        let pieces = ["machine m login \"" + repeated("\\\"", Self.long), "#" + repeated("#", Self.long)]
        for piece in pieces { _ = try? Netrc(piece) }
        let name = "machine m login a" + repeated("\u{301}", Self.long)
        _ = try? Netrc(name + "\nmacdef x\n" + repeated("y\n", Self.many))
    }

    @Test func hstsFileIsReadUpToItsLimit() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "hsts.txt")
        let lines = (0..<Self.many).map { "h\($0).test \"\(later)\"\n" }
        try directory.write(Data(lines.joined().utf8), to: "hsts.txt")
        let store = try #require(try HSTSStore(testConfiguration { $0.hsts = .file(path) }))
        #expect(store.secureURL(of: try Target("http://h\(Self.many - 1).test/")) != nil)
        var list = HSTSList()
        for line in lines { _ = list.add(line: line.dropLast(), now: 0) }
        #expect((HSTSList.limit / 2...HSTSList.limit).contains(list.entries.count))
        let isAdded = list.add(line: repeated("x.", Self.depth) + " \"\(later)\"", now: 0)
        #expect(isAdded)
        #expect(list.covers(repeated("x.", Self.depth) + "y", now: 0) == false)
    }

    @Test func altSvcIsKeptUpToItsLimits() throws {
        var list = AlternativeList()
        for number in 0..<Self.many {
            _ = list.add(line: "h1 a\(number).test 443 h2 b.test 443 \"\(later)\" 0 0"[...], now: 0)
            _ = list.add(line: "h1 one.test 443 h2 b\(number).test 443 \"\(later)\" 0 0"[...], now: 0)
        }
        #expect(list.services.count <= AlternativeList.limit)
        #expect(list.services.values.allSatisfy { $0.count <= AlternativeList.serviceLimit })
        let target = try Target("https://new.test/")
        let field = (0..<Self.many).map { "h2=\"b\($0).test:443\"" }.joined(separator: ",")
        let isNoted = list.note(field, of: target, now: 0)
        #expect(isNoted)
        #expect(list.services["https://new.test:443"]?.count == AlternativeList.serviceLimit)
        #expect(list.note("h2=\"" + repeated("\\", Self.long), of: target, now: 0) == false)
    }

    // MARK: Fields

    @Test func largeLinksAreRead() {
        #expect(HTTPResponse.Link.all(in: repeated("<a>;rel=next,", Self.many)).count == Self.many)
        #expect(HTTPResponse.Link.all(in: "<a>" + repeated(";x=y", Self.many)).first?.parameters == ["x": "y"])
        #expect(HTTPResponse.Link.all(in: "<a>;rel=\"" + repeated("n ", Self.long)).first?.relations.count == Self.long)
        #expect(HTTPResponse.Link.all(in: repeated("<", Self.long)).isEmpty)
        #expect(HTTPResponse.Link.all(in: repeated("<a", Self.long) + ">").count == 1)
    }

    @Test func largeListsAreRead() {
        #expect(FieldList.elements(of: repeated("a,", Self.many)).count == Self.many)
        #expect(FieldList.elements(of: "\"" + repeated("\\,", Self.long)).count == 1)
        #expect(FieldList.unquoted("\"" + repeated("\\\"", Self.long) + "\"").utf8.count == Self.long)
        #expect(FieldList.parameter(repeated("=", Self.long)).name.isEmpty)
    }

    // MARK: JSON

    @Test func deepJSONIsAnError() async throws {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let text = repeated(open, Self.depth) + "1" + repeated(close, Self.depth)
            let error = #expect(throws: (any Error).self) { try JSONValue(parsing: Data(text.utf8)) }
            #expect(error.map { "\($0)".contains("more than 512 nested arrays and objects") } == true)
            #expect(throws: (any Error).self) { try JSONValue(parsing: Data(repeated(open, Self.long).utf8)) }
        }
    }

    @Test func largeJSONIsRead() throws {
        let long = repeated("x\\n", Self.long)
        let many = (0..<Self.many).map { "\"n\($0)\":[]" }.joined(separator: ",")
        let value = try JSONValue(parsing: Data(#"{"long":"\#(long)",\#(many)}"#.utf8))
        #expect(value["long"].string?.utf8.count == 2 * Self.long && value["n\(Self.many - 1)"].array == [])
        let error = #expect(throws: (any Error).self) {
            try JSONValue(parsing: Data("[\(repeated("9", Self.long))]".utf8))
        }
        #expect(error.map { "\($0)".contains("the number is too large") } == true)
    }
}
