import FoundationEssentials

@testable import CurlTransport

/// A cookie store sends no control characters and stays within its size limit. When a file that it wrote is read, the
/// result is the same cookies.
@Sendable func fuzzCookies(_ bytes: [UInt8]) throws {
    try fuzzReceived(text(bytes))
    try fuzzFile(text(bytes))
}

/// The input has one `Set-Cookie` on each line.
private func fuzzReceived(_ lines: String) throws {
    let now = Date(timeIntervalSince1970: 1_700_000_000)
    var table = CookieTable()
    let place = CookieTable.Place(host: "www.example.org", path: "/folder/page", isSecure: true)
    for line in lines.utf8.split(separator: 0x0A).prefix(64) {
        guard let cookie = SetCookie(String(Substring(line)), now: 1_700_000_000) else { continue }
        _ = table.receive(cookie, from: place, now: now) { !$0.contains(".") }
    }
    let cookies = table.all(now)
    try expect(cookies.count == table.count, "\(cookies.count) cookies, expected \(table.count)")
    for cookie in cookies {
        try expect(
            cookie.domain == "www.example.org" || cookie.domain == "example.org" && cookie.includesSubdomains,
            "a cookie for \(cookie.domain)")
        try expect((try? NetscapeCookie.line(cookie)) != nil, "a cookie that cannot be written: \(cookie)")
    }
    try expectSameFile(cookies)
    guard let field = table.field(for: place, now: now) else { return }
    try expect(field.utf8.count <= CookieTable.fieldLimit, "a field of \(field.utf8.count) bytes")
    try expect(field.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "a control character is sent")
}

private func fuzzFile(_ file: String) throws { try expectSameFile(NetscapeCookie.cookies(file)) }

private func expectSameFile(_ cookies: [Cookie]) throws {
    guard let file = NetscapeCookie.file(cookies) else { return }
    let again = NetscapeCookie.cookies(file)
    let kept = cookies.filter { $0.expires != nil && (try? NetscapeCookie.line($0)) != nil }
    try expect(again.count == kept.count, "\(again.count) cookies, expected \(kept.count), in \(file.debugDescription)")
    try expect(NetscapeCookie.file(again) == file, "the file changes when written again: \(file.debugDescription)")
}
