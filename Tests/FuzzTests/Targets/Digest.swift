import FoundationEssentials

@testable import CurlTransport
@testable import HTTPCore

/// The input has one `WWW-Authenticate` field on each line. The answer to the preferred challenge is one line of a field,
/// and its parameters are read back as they were meant.
@Sendable func fuzzDigest(_ bytes: [UInt8]) throws {
    let fields = bytes.split(separator: 0x0A).prefix(16).map(text)
    let schemes = AuthenticationScheme.all(in: fields)
    guard let challenge = DigestChallenge.preferred(among: schemes) else { return }
    let request = DigestChallenge.Request(method: "GET", target: "/a?b", user: "ü\"\\", password: "p")
    guard let answer = challenge.answer(to: request, count: 1, clientNonce: "c") else { return }
    try expect(answer.utf8.isFieldValue, "the answer is no field value: \(answer.debugDescription)")
    let again = AuthenticationScheme.all(in: [answer])
    try expect(again.count == 1 && again.first?.name == "digest", "the answer has \(again.count) schemes")
    let parameters = again.first?.parameters ?? [:]
    try expect(parameters["realm"] == challenge.realm, "another realm: \(answer.debugDescription)")
    try expect(parameters["nonce"] == challenge.nonce, "another nonce: \(answer.debugDescription)")
    try expect(parameters["opaque"] == challenge.opaque, "another opaque: \(answer.debugDescription)")
    try expect(parameters["uri"] == "/a?b", "another target: \(answer.debugDescription)")
}
