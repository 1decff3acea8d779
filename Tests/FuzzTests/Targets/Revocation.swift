import FoundationEssentials

@testable import Cryptography

/// The input is a revocation list in PEM or DER, or a certificate in DER or the base64 of PEM. What is read of them is text that
/// can be shown, and addresses that can be asked without TLS.
@Sendable func fuzzRevocation(_ bytes: [UInt8]) throws {
    let lists = (try? RevocationList.read(Data(bytes))) ?? []
    for list in lists {
        try expect(list.issuer.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "control characters in \(list.issuer)")
        try expect(list.issuer.utf8.count <= 4_000, "an issuer of \(list.issuer.utf8.count) bytes")
    }
    let lines = text(bytes).split(separator: "\n").filter { !$0.hasPrefix("-----") }
    let decoded = Data(base64Encoded: lines.joined()).map(Array.init) ?? bytes
    // Nobody has signed an input for itself.
    let findings = RevocationList.findings(of: lists, about: decoded, by: decoded).map(\.finding)
    try expect(findings.allSatisfy { if case .unusable = $0 { true } else { false } }, "\(findings)")
    let urls = CertificateFacts.listURLs(der: decoded)
    try expect(urls.count <= 4, "\(urls.count) addresses")
    try expect(urls.allSatisfy { $0.lowercased().hasPrefix("http://") }, "another scheme: \(urls)")
}
