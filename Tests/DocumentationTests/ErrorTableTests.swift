import Foundation
import Snippets
import Testing

@testable import LATClient
@testable import lat

/// The table of Documentation/Errors.md says what the code does. `scripts/lint` compares its texts with the source.
@Suite struct ErrorTableTests {
    /// The cells of each row, without the backticks of the first.
    private let rows: [String: [String]]

    init() throws {
        let page = URL(filePath: #filePath).appending(path: "../../../Documentation/Errors.md").standardizedFileURL
        let lines = try String(contentsOf: page, encoding: .utf8).split(separator: "\n")
        let cells = lines.filter { $0.hasPrefix("| `") }.map { line in
            line.dropFirst(2).dropLast(2).split(separator: " | ").map(String.init)
        }
        rows = Dictionary(cells.map { ($0[0].replacing("`", with: ""), $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// One of each kind.
    private static let kinds: [NetworkError.Kind] =
        [
            .invalidRequest, .unknownName, .dns, .connect, .cancelled, .httpStatus, .business(code: "1"),
            .decoding(path: "a"), .redirect, .bodyTooLarge, .connectionLost, .protocolViolation, .proxy,
            .addressBlocked(.loopback), .cache, .storage, .requestBody, .integrity, .provider, .simulation,
            .unsupported,
            .authentication, .duplicate, .circuitOpen, .shutDown, .other,
        ] + NetworkError.TLSFailure.allCases.map { .tls($0) } + NetworkError.TimeoutPhase.allCases.map { .timeout($0) }

    /// The name of a kind in the table. A new kind does not compile without a line here.
    private static func name(_ kind: NetworkError.Kind) -> String {
        switch kind {
        case .tls(let failure): "tls(.\(failure))"
        case .timeout(let phase): "timeout(.\(phase))"
        case .business: "business(code:)"
        case .decoding: "decoding(path:)"
        case .addressBlocked: "addressBlocked(rule)"
        case .invalidRequest, .unknownName, .dns, .connect, .cancelled, .httpStatus, .redirect, .bodyTooLarge,
            .connectionLost, .protocolViolation, .proxy, .cache, .storage, .requestBody, .integrity, .provider,
            .simulation, .unsupported, .authentication, .duplicate, .circuitOpen, .shutDown, .other:
            "\(kind)"
        }
    }

    @Test(arguments: kinds)
    func rowSaysWhatTheCodeDoes(_ kind: NetworkError.Kind) throws {
        let row = try #require(rows[Self.name(kind)], "scripts/docs --errors makes the table")
        #expect(row.count == 5)
        let error = NetworkError(kind, message: "")
        #expect(row.last == "\(ExitCode(error).rawValue)")
        guard kind != .httpStatus else { return }
        let decision = RetryState(policy: RetryPolicy(retries: 1), retries: 1)
        let isRepeated = decision.isWorthRepeating(.failure(error), HTTPRequest("GET", "https://a.example"))
        #expect(row[3] == (isRepeated ? "yes" : "no"))
    }

    @Test(arguments: NetworkError.AddressRule.allCases)
    func everyAddressRuleHasARow(_ rule: NetworkError.AddressRule) { #expect(rows[rule.rawValue]?.count == 2) }
}
