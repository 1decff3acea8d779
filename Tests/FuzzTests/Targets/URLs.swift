@testable import CurlTransport
@testable import HTTPCore

/// The parts of a URL make up its text. Of a URL that libcurl accepts, they name the host and port that libcurl connects to,
/// and neither user information nor query is left when it is redacted. The input has one URL on each line.
@Sendable func fuzzURLs(_ bytes: [UInt8]) throws {
    for line in bytes.split(separator: 0x0A).prefix(64) {
        let url = text(line)
        try fuzzParts(url)
        for prefix in ["http://", "https://user:secret@", "http:/"] { try fuzzParts(prefix + url) }
    }
}

private func fuzzParts(_ url: String) throws {
    let parts = URLParts(url)
    let shown = url.debugDescription
    var whole = String(parts.beforePath) + parts.path
    if let query = parts.query { whole += "?" + query }
    try expect(whole == parts.withoutFragment, "\(shown) is not the sum of its parts")
    if let fragment = parts.fragment { whole += "#" + fragment }
    try expect(Array(whole.utf8) == Array(url.utf8), "\(shown) is not the sum of its parts")
    if let authority = parts.authority {
        let user = parts.userInformation.map { $0 + "@" } ?? ""
        try expect(authority == user + (parts.hostAndPort ?? ""), "the authority of \(shown)")
        // By bytes: a slash and a combining mark are one character.
        let end = parts.beforePath.utf8.suffix(authority.utf8.count)
        try expect(end.elementsEqual(authority.utf8), "what is before the path of \(shown)")
    }
    let redacted = URLParts(parts.redacted)
    try expect(redacted.userInformation == nil && redacted.fragment == nil, "\(shown) shows \(redacted.text)")
    try expect(redacted.query ?? "…" == "…", "\(shown) shows \(redacted.text)")
    guard let target = try? Target(url) else { return }
    guard let scheme = parts.scheme, let hostAndPort = parts.hostAndPort else {
        throw FuzzFault(description: "\(shown) has no authority, but libcurl connects to \(target.origin)")
    }
    try expect(scheme.lowercased() == target.scheme, "the scheme of \(shown)")
    guard let again = try? Target("\(scheme)://\(hostAndPort)/") else {
        throw FuzzFault(description: "libcurl refuses \(hostAndPort), the host and port of \(shown)")
    }
    try expect(again.origin == target.origin && again.host == target.host, "\(shown): \(hostAndPort), \(target.origin)")
    try expect(again.zone == target.zone, "the zone of \(shown)")
    try expect(target.hasUser == (parts.userInformation != nil), "the user of \(shown)")
    let hidden = ["://…", ":/…", ":///…"].map { scheme + $0 }
    let isHidden = parts.mayContinueUser && hidden.contains { redacted.text == $0 }
    try expect(isHidden || redacted.authority == hostAndPort, "\(shown) shows \(redacted.text)")
}
