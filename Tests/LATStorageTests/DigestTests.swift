import Foundation
import HTTPCore
import LATStorage
import LATTesting
import TestSupport
import Testing

@Suite struct DigestTests {
    /// RFC 1321 §A.5, RFC 3174 §7.3, FIPS 180-4.
    @Test(arguments: [
        (Digest.md5, "", "d41d8cd98f00b204e9800998ecf8427e"),
        (.md5, "message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
        (.sha1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (.sha256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (.sha256, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (
            .sha384, "abc",
            "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"
        ),
        (
            .sha512, "abc",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        ),
    ]) func digestsMatchPublishedVectors(digest: Digest, text: String, expected: String) throws {
        let directory = try TemporaryDirectory()
        #expect(try text.digest(digest) == expected)
        #expect(try digest.hexadecimal(ofFile: directory.write(Data(text.utf8), to: "f")) == expected)
    }

    @Test func largeFileIsDigestedInLittleMemory() throws {
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: 200_000_000, to: "big")
        let before = ProcessFacts.residentBytes
        let value = try Digest.sha256.hexadecimal(ofFile: path)
        #expect(ProcessFacts.residentBytes - before < 100_000_000)
        #expect(try value == Digest.sha256.hexadecimal(of: #require(directory.read("big"))))
    }

    @Test func unreadableFileThrowsAStorageError() {
        for path in ["/nowhere", "/proc", "/proc/self/status\0"] {
            let error = #expect(throws: NetworkError.self) { try Digest.md5.bytes(ofFile: path) }
            #expect(error?.kind == .storage)
        }
    }

    /// RFC 4648 §10.
    @Test func encodingsMatchPublishedVectors() {
        for (text, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            #expect(text.base64 == encoded && encoded.base64Decoded == text)
            #expect(text.base64URL.base64Decoded == text && !text.base64URL.contains("="))
        }
        #expect(Data([0xFB, 0xFF]).base64URL == "-_8")
        #expect(Data(base64Text: "-_8") == Data([0xFB, 0xFF]) && Data(base64Text: "+/8=") == Data([0xFB, 0xFF]))
        #expect("A".base64Decoded == nil && "Zg===".base64Decoded == nil && "Z g=".base64Decoded == nil)
        #expect("/w==".base64Decoded == nil)
        #expect("foobar".hexadecimal == "666f6f626172")
        #expect(
            Data(hexadecimal: "00fF") == Data([0, 255]) && Data(hexadecimal: "0") == nil
                && Data(hexadecimal: "zz") == nil)
        #expect("a b/ü&=+%".urlEncoded == "a%20b%2F%C3%BC%26%3D%2B%25")
        #expect("a%20b%2F%C3%BC+".urlDecoded == "a b/ü+" && "%2".urlDecoded == nil && "%FF".urlDecoded == nil)
        for text in hostileTexts { #expect(text.urlEncoded.urlDecoded == text && text.base64.base64Decoded == text) }
    }
}
