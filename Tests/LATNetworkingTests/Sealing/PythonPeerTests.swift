import FoundationEssentials
import LATNetworking
import TestSupport
import Testing

/// Sealed and signed requests against a Python server written from `Documentation/SealedMessages.md`.
@Suite(.enabled(if: Servers.forms != nil, "needs the Python server of scripts/test"), .timeLimit(.minutes(1)))
struct PythonPeerTests {
    private static let key = Data((0..<32).map { UInt8($0) })

    private func sealer(_ cipher: String) throws -> any Sealer {
        if cipher == "AES" { return try AESGCMSealer(keys: ["k1": Self.key], current: "k1") }
        return try AEADSealer(keys: ["k1": Self.key], current: "k1", algorithm: .chaCha20Poly1305)
    }

    @Test(arguments: ["AES", "ChaCha"], ["GET", "POST", "PUT", "DELETE"])
    func pythonPeerOpensAndReplies(cipher: String, method: String) async throws {
        let base = try #require(Servers.forms)
        let sealer = try sealer(cipher)
        let signer = try HMACSigner(keyID: "a", key: Data("0123456789abcdef0123456789abcdef".utf8))
        let manager = try CentralRequestManager.make {
            $0.sealer = sealer
            $0.signer = signer
        }
        let reply = try await manager.startRequest(
            method, base + "/sealed/v1/ö?page=2", parameters: ["name": "Ada \u{1F98A}"]
        ).json()
        let hasBody = method == "POST" || method == "PUT"
        #expect(reply["method"].string == method && reply["signature"].bool == true)
        #expect(reply["content"].string == (hasBody ? "{\"name\":\"Ada \u{1F98A}\"}" : ""))
        #expect(reply["contentType"].string == (hasBody ? "application/json" : ""))
    }

    @Test func pythonPeerRefusesAnotherKey() async throws {
        let base = try #require(Servers.forms)
        let sealer = try AESGCMSealer(keys: ["k1": Data(count: 32)], current: "k1")
        let manager = try CentralRequestManager.make { $0.sealer = sealer }
        let error = await failure(of: { try await manager.startRequest("GET", base + "/sealed/x") })
        #expect(error?.kind == .httpStatus && error?.response?.text?.contains("InvalidTag") == true)
    }
}
