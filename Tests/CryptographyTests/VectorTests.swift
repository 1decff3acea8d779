import Cryptography
import Foundation
import Testing

/// Digests, HMAC and ciphers, checked with short published vectors.
struct VectorTests {
    @Test(arguments: [
        (MessageDigest.Algorithm.md5, "900150983cd24fb0d6963f7d28e17f72"),
        (.sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ])
    func digestsMatchPublishedVectors(algorithm: MessageDigest.Algorithm, expected: String) throws {
        #expect(MessageDigest.hexadecimal(try MessageDigest.of(Data("abc".utf8), algorithm)) == expected)
        var parts = MessageDigest(algorithm)
        for byte in "abc".utf8 { parts.update([byte]) }
        #expect(MessageDigest.hexadecimal(try parts.finalize()) == expected)
    }

    @Test func digestOfNoBytesMatches() throws {
        let expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        #expect(MessageDigest.hexadecimal(try MessageDigest.of(Data(), .sha256)) == expected)
    }

    /// RFC 4231, test case 2.
    @Test func hmacMatchesRFC4231() throws {
        let code = try MessageDigest.hmac(Data("what do ya want for nothing?".utf8), key: Data("Jefe".utf8))
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        #expect(MessageDigest.hexadecimal(code) == expected)
        #expect(try MessageDigest.hmac(Data(), key: Data()).count == 32)
    }

    /// Test cases 13 and 14 of the specification of Galois/Counter Mode.
    @Test func aesGCMMatchesItsSpecification() throws {
        let key = [UInt8](repeating: 0, count: 32)
        let nonce = [UInt8](repeating: 0, count: 12)
        let empty = try AuthenticatedCipher.aes256GCM.seal([UInt8](), key: key, nonce: nonce)
        #expect(MessageDigest.hexadecimal(empty) == "530f8afbc74536b9a963b4f1c4cb738b")
        let block = try AuthenticatedCipher.aes256GCM.seal([UInt8](repeating: 0, count: 16), key: key, nonce: nonce)
        #expect(
            MessageDigest.hexadecimal(block) == "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919")
    }

    @Test(arguments: AuthenticatedCipher.allCases)
    func changedBytesAreNotOpened(cipher: AuthenticatedCipher) throws {
        let key = try randomBytes(32)
        let nonce = try randomBytes(12)
        let plaintext = Array("nobody is to read this".utf8)
        let sealed = try cipher.seal(plaintext, key: key, nonce: nonce, associated: [1, 2])
        #expect(try cipher.open(sealed, key: key, nonce: nonce, associated: [1, 2]) == plaintext)
        for index in sealed.indices {
            var touched = sealed
            touched[index] ^= 1
            #expect(throws: CryptographyError.authentication) {
                try cipher.open(touched, key: key, nonce: nonce, associated: [1, 2])
            }
        }
        for count in 0..<sealed.count {
            #expect(throws: CryptographyError.authentication) {
                try cipher.open(Array(sealed.prefix(count)), key: key, nonce: nonce, associated: [1, 2])
            }
        }
        #expect(throws: CryptographyError.authentication) {
            try cipher.open(sealed, key: key, nonce: nonce, associated: [1])
        }
    }

    @Test func keysOfAnotherLengthAreRejected() {
        #expect(throws: CryptographyError.keyLength(expected: 32, found: 16)) {
            try AuthenticatedCipher.aes256GCM.seal([1], key: [UInt8](repeating: 0, count: 16), nonce: [])
        }
    }
}
