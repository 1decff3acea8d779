import Cryptography
import Foundation
import Testing

/// What is read from keys and certificates.
struct KeyFactsTests {
    private static let p256 = """
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEOje633Zf8dXiCMXJrIIopjVSSyXm
        b3wCAtnsi61VrpN1Fmo968vfCUquj63B0Rq3c4SxaGp3HkcNiYACjOua8A==
        """
    private static let secp256k1 = """
        MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAEg6r+1X8F80G8ZB17756F0gZ5NTIEmIIx
        hQwAsHl7Iihe0FklBAEfSq10H/5nFgPPtmbqGWXA0Cr7uMtllDjCZQ==
        """
    private static let brainpool = """
        MFowFAYHKoZIzj0CAQYJKyQDAwIIAQEHA0IABFH9g/NJ22MWqoVhnuywBXBFGRWk
        Xu0eTX2ggKtufsHXmtzb8KqMbHB8Vuf8c4GcM9IerTNf2t7Wc5seu++yu0w=
        """

    private func key(_ base64: String, _ scheme: SignatureKey.Scheme) throws -> SignatureKey {
        try SignatureKey(pem: "-----BEGIN PUBLIC KEY-----\n\(base64)\n-----END PUBLIC KEY-----\n", scheme)
    }

    @Test func keyOfAnotherCurveIsRefused() throws {
        #expect(try !key(Self.p256, .ecdsaP256).isPrivate)
        for (other, scheme) in [
            (Self.secp256k1, SignatureKey.Scheme.ecdsaP256), (Self.brainpool, .ecdsaP256), (Self.p256, .ecdsaP384),
        ] {
            let problem = #expect(throws: CertificateFile.Problem.self) { try key(other, scheme) }
            #expect(problem?.reason.hasPrefix("is of another kind") == true)
        }
    }

    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl"), "needs openssl"))
    func allNamesOfACertificateAreCounted() throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        let names = (0..<60).map { "DNS:host-number-\($0).of.a.long.example.org" }
        process.arguments = [
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
            "/dev/null",
            "-subj", "/CN=a", "-addext", "subjectAltName=\(names.joined(separator: ","))", "-outform", "DER",
        ]
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let der = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        let facts = try #require(CertificateFacts(der: Array(der)))
        #expect(facts.names == names)
        #expect(facts.nameList.hasSuffix(" and 55 more"))
    }
}
