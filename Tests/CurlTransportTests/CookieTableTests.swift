import FoundationEssentials
import Testing

@testable import CurlTransport

@Suite struct CookieTableTests {
    private let now = Date(timeIntervalSince1970: 1_000_000)

    private func place(_ host: String, _ path: String = "/", secure: Bool = true) -> CookieTable.Place {
        CookieTable.Place(host: host, path: path, isSecure: secure)
    }

    /// Receives a field. Returns whether the table accepts it.
    @discardableResult
    private func receive(
        _ table: inout CookieTable, _ field: String, from place: CookieTable.Place, now: Int64 = 1_000_000
    ) -> Bool {
        let date = Date(timeIntervalSince1970: Double(now))
        guard let field = SetCookie(field, now: now) else { return false }
        return table.receive(field, from: place, now: date) { $0 == "com" || $0 == "github.io" || !$0.contains(".") }
    }

    // MARK: Parsing

    @Test func attributesAreParsed() throws {
        let field = try #require(
            SetCookie(
                " a = \"b c\" ; DOMAIN=.Example.COM;path=/x ;Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:09 GMT; secure;"
                    + "\thttponly=no;samesite=STRICT; other", now: 1_000_000))
        #expect(field.name == "a" && field.value == "\"b c\"")
        #expect(field.domain == "example.com" && field.path == "/x")
        #expect(field.expires == Date(timeIntervalSince1970: 1_000_010))
        #expect(field.isSecure && field.isHTTPOnly && field.sameSite == .strict)
    }

    @Test(arguments: [
        "", "a", "=b", " =b", "a=\u{1}", "a=b\u{7F}", "a=b\tc", "a=" + String(repeating: "x", count: 4096),
    ])
    func malformedFieldsAreIgnored(_ field: String) { #expect(SetCookie(field, now: 0) == nil) }

    @Test func malformedAttributesAreIgnored() throws {
        let field = try #require(
            SetCookie("a=b=c; Max-Age=1x; Expires=soon; Domain=; Path=x; SameSite=Maybe; Path", now: 0))
        #expect(field.value == "b=c" && field.expires == nil && field.domain == nil && field.path == nil)
        #expect(field.sameSite == nil)
        #expect(SetCookie("a=b; Max-Age=-99999999999999999999", now: 5)?.expires == Date(timeIntervalSince1970: 1))
        #expect(try #require(SetCookie("a=b; Max-Age=99999999999999999999", now: 5)?.expires) > now)
        // A combining accent after "=" or ";" must not hide the separator.
        #expect(SetCookie("a=\u{301}b;\u{301}", now: 0)?.value == "\u{301}b")
    }

    // MARK: Accepting

    @Test(arguments: [
        ("a=1; Domain=com", "x.com", false), ("a=1; Domain=github.io", "me.github.io", false),
        ("a=1; Domain=github.io", "github.io", true), ("a=1; Domain=localhost", "localhost", true),
        ("a=1; Domain=7.1", "10.0.7.1", false), ("a=1; Domain=10.0.7.1", "10.0.7.1", true),
        ("a=1; Domain=::1", "[::1]", true), ("a=1; Domain=y.x.com", "x.com", false),
        ("a=1; Domain=ax.com", "x.com", false), ("__Secure-a=1", "x.com", false),
        ("__host-a=1; Secure", "x.com", false),
        ("__Secure-a=1; Secure", "x.com", true), ("__Host-a=1; Secure; Path=/", "x.com", true),
        ("__Host-a=1; Secure; Path=/; Domain=x.com", "x.com", false), ("a=1; SameSite=None", "x.com", false),
        ("a=1; SameSite=None; Secure", "x.com", true),
        // With a dot at the end.
        ("a=1; Domain=github.io.", "me.github.io.", false), ("a=1; Domain=com.", "x.com.", false),
        ("a=1; Domain=com.", "x.com", false), ("a=1; Domain=com", "x.com.", false),
        ("a=1; Domain=com..", "x.com..", false),
        ("a=1; Domain=x.com.", "y.x.com", true), ("a=1; Domain=x.com", "y.x.com.", true),
        ("a=1; Domain=7.1.", "10.0.7.1.", false), ("a=1; Domain=.", "x.com", true),
    ])
    func domainPrefixAndSameSiteAreChecked(_ field: String, _ host: String, _ isTaken: Bool) {
        var table = CookieTable()
        #expect(receive(&table, field, from: place(host)) == isTaken)
        #expect(table.all(now).count == (isTaken ? 1 : 0))
    }

    @Test(arguments: [0, UInt32.max]) func publicSuffixesDependOnLibpslAlone(_ features: UInt32) {
        let suffixes = LibcurlInfo.all(features, [], hasAres: false).first { $0.name == "public suffixes" }
        #expect(suffixes?.isThere == (PublicSuffixList.shared != nil))
    }

    @Test func expiredSecureCookieBlocksNoOther() {
        var table = CookieTable()
        #expect(receive(&table, "c=1; Secure; Max-Age=10", from: place("x.com")))
        #expect(!receive(&table, "c=2", from: place("x.com", secure: false)))
        #expect(receive(&table, "c=2", from: place("x.com", secure: false), now: 1_000_010))
    }

    @Test func clearTextCannotReplaceSecureCookies() {
        var table = CookieTable()
        #expect(receive(&table, "a=1; Secure; Domain=x.com", from: place("x.com")))
        for host in ["x.com", "y.x.com"] {
            #expect(!receive(&table, "a=2", from: place(host, secure: false)))
            #expect(!receive(&table, "b=2; Secure", from: place(host, secure: false)))
        }
        #expect(receive(&table, "a=2", from: place("other.com", secure: false)))
        #expect(receive(&table, "b=2; Secure", from: place("localhost", secure: false)))
        #expect(table.field(for: place("x.com", secure: false), now: now) == nil)
        #expect(table.field(for: place("x.com"), now: now) == "a=1")
    }

    // MARK: Sending

    @Test func longestPathThenOldestGoesFirst() {
        var table = CookieTable()
        for field in ["a=1; Path=/", "b=1; Path=/x/", "c=1; Path=/x", "d=1; Path=/"] {
            receive(&table, field, from: place("x.com"))
        }
        // A cookie that is set again keeps its position.
        receive(&table, "a=2; Path=/", from: place("x.com"))
        #expect(table.field(for: place("x.com", "/x/y"), now: now) == "b=1; c=1; a=2; d=1")
        #expect(table.field(for: place("x.com", "/x"), now: now) == "c=1; a=2; d=1")
        #expect(table.field(for: place("x.com", "/xy"), now: now) == "a=2; d=1")
    }

    @Test func defaultPathIsTheRequestFolder() {
        var table = CookieTable()
        receive(&table, "a=1", from: place("x.com", "/docs/web/index.html"))
        receive(&table, "b=1", from: place("x.com", "/index.html"))
        #expect(table.all(now).map(\.path).sorted() == ["/", "/docs/web"])
        #expect(table.field(for: place("x.com", "/docs"), now: now) == "b=1")
    }

    @Test func expiredCookieIsNotSent() {
        var table = CookieTable()
        receive(&table, "a=1; Max-Age=10", from: place("x.com"))
        #expect(table.field(for: place("x.com"), now: now + 9) == "a=1")
        #expect(table.field(for: place("x.com"), now: now + 10) == nil)
        #expect(table.all(now + 10).isEmpty)
        #expect(receive(&table, "a=; Max-Age=0", from: place("x.com")))
        #expect(table.count == 0)
    }

    @Test func sentFieldIsBounded() throws {
        var table = CookieTable()
        for number in 0..<170 { receive(&table, "n\(number)=v", from: place("x.com")) }
        #expect(table.field(for: place("x.com"), now: now)?.split(separator: ";").count == CookieTable.sentLimit)
        for number in 0..<10 {
            receive(&table, "l\(number)=\(String(repeating: "x", count: 4000))", from: place("y.com"))
        }
        #expect(try #require(table.field(for: place("y.com"), now: now)).utf8.count <= CookieTable.fieldLimit)
    }

    @Test func hostWithADotAtItsEndIsTheSameHost() {
        var table = CookieTable()
        receive(&table, "a=1", from: place("x.com."))
        receive(&table, "b=1; Domain=x.com.", from: place("x.com"))
        #expect(table.field(for: place("x.com"), now: now) == "a=1; b=1")
        #expect(table.field(for: place("X.com."), now: now) == "a=1; b=1")
        #expect(table.field(for: place("y.x.com."), now: now) == "b=1")
    }

    @Test func oversizedCookieDoesNotStopTheNext() {
        var table = CookieTable()
        let large = String(repeating: "x", count: CookieTable.fieldLimit)
        table.set(Cookie("large", large, domain: "x.com"), now: now)
        #expect(table.field(for: place("x.com"), now: now) == nil)
        receive(&table, "a=1", from: place("x.com"))
        #expect(table.field(for: place("x.com"), now: now) == "a=1")
    }

    @Test func tableIsBounded() {
        var table = CookieTable()
        for number in 0..<1000 { receive(&table, "n\(number)=v", from: place("x.com")) }
        #expect(table.count == CookieTable.domainLimit)
        #expect(table.all(now).contains { $0.name == "n999" })
        for number in 0..<5000 { receive(&table, "n=v", from: place("d\(number).com")) }
        #expect(table.count <= CookieTable.totalLimit && table.count > CookieTable.totalLimit / 2)
        #expect(table.field(for: place("d4999.com"), now: now) == "n=v")
        #expect(table.field(for: place("x.com"), now: now) == nil)
    }

    // MARK: The file

    @Test func cookiesSurviveTheFileFormat() throws {
        let cookies = [
            Cookie("a", "1", domain: "x.com", path: "/p/", expires: now, isSecure: true, sameSite: .noRestriction),
            Cookie("b", "", domain: "y.com", includesSubdomains: true, expires: now, isHTTPOnly: true),
            Cookie("c", "2", domain: "z.com", expires: now, sameSite: .lax),
        ]
        let text = try #require(NetscapeCookie.file(cookies + [Cookie("session", "1", domain: "x.com")]))
        #expect(Set(NetscapeCookie.cookies(text)) == Set(cookies))
        #expect(NetscapeCookie.file([]) == nil)
    }
}
