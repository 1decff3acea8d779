import Cryptography
import Foundation
import Testing

/// Signatures, checked with the vectors of RFC 8032 §7.1.
struct Ed25519Tests {
    struct Vector: Sendable {
        let seed, key, message, signature: String
    }

    static let vectors = [
        Vector(
            seed: "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            key: "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", message: "",
            signature:
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
                + "d25bf5f0595bbe24655141438e7a100b"),
        Vector(
            seed: "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            key: "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", message: "72",
            signature:
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
                + "387b2eaeb4302aeeb00d291612bb0c00"),
        Vector(
            seed: "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            key: "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", message: "af82",
            signature:
                "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
                + "4a7c15e9716ed28dc027beceea1ec40a"),
    ]

    @Test(arguments: vectors) func signaturesMatchRFC8032(_ vector: Vector) throws {
        let (message, signature) = (Self.bytes(vector.message), Self.bytes(vector.signature))
        let key = try Ed25519.PrivateKey(seed: Self.bytes(vector.seed))
        #expect(try key.publicKey().bytes == Self.bytes(vector.key))
        #expect(try key.signature(of: message) == signature)
        let publicKey = try Ed25519.PublicKey(Self.bytes(vector.key))
        #expect(publicKey.verifies(signature, of: message))
        #expect(try Ed25519.PublicKey(text: publicKey.text) == publicKey)
    }

    @Test func changedSignatureOrMessageDoesNotFit() throws {
        let vector = Self.vectors[1]
        let key = try Ed25519.PublicKey(Self.bytes(vector.key))
        let (message, signature) = (Self.bytes(vector.message), Self.bytes(vector.signature))
        for index in signature.indices {
            var touched = signature
            touched[index] ^= 1
            #expect(!key.verifies(touched, of: message))
        }
        #expect(!key.verifies(signature, of: message + [0]) && !key.verifies([], of: message))
        #expect(!key.verifies(signature + [0], of: message))
    }

    @Test func keysAreReadFromPEM() throws {
        // RFC 8410 §10.3: the private key, with the public key of §10.1.
        let pem = """
            -----BEGIN PRIVATE KEY-----
            MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
            -----END PRIVATE KEY-----
            """
        let publicPEM = """
            -----BEGIN PUBLIC KEY-----
            MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
            -----END PUBLIC KEY-----
            """
        let key = try Ed25519.PrivateKey(pem: pem)
        #expect(try key.publicKey() == Ed25519.PublicKey(text: publicPEM))
        #expect(try key.publicKey().verifies(key.signature(of: [1, 2, 3]), of: [1, 2, 3]))
    }

    @Test(arguments: ["", "abc", "AAAA", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"])
    func otherTextIsNoKey(_ text: String) {
        #expect(throws: Ed25519.Problem.self) { try Ed25519.PublicKey(text: text) }
        #expect(throws: Ed25519.Problem.self) { try Ed25519.PrivateKey(pem: text) }
    }

    private static func bytes(_ text: String) -> [UInt8] {
        stride(from: 0, to: text.count, by: 2).compactMap { UInt8(text.dropFirst($0).prefix(2), radix: 16) }
    }
}
