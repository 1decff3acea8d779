import Cryptography
import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Uploads as read by independent parsers: Werkzeug (Flask) and python-multipart (FastAPI).
@Suite(.enabled(if: Servers.forms != nil, "needs the parsers of scripts/test"), .timeLimit(.minutes(5)))
struct FormParserTests {
    enum Parser: String, CaseIterable, Sendable {
        case werkzeug
        case pythonMultipart = "python-multipart"
    }

    private struct Form: Decodable {
        struct File: Decodable, Hashable {
            var name: String
            var fileName: String
            var contentType: String
            var size: Int64
            var sha256: String
        }

        var fields: [[String]]
        var files: [File]
    }

    private let manager: CentralRequestManager
    private let directory: TemporaryDirectory

    init() throws {
        manager = try CentralRequestManager.make()
        directory = try TemporaryDirectory()
    }

    private func form(
        _ parser: Parser, _ files: [UploadFile], parameters: Parameters? = nil, method: String = "POST"
    ) async throws -> Form {
        let base = try #require(Servers.forms)
        let upload = manager.upload("\(base)/\(parser.rawValue)", method: method, files: files, parameters: parameters)
        return try await upload.value.decode(Form.self)
    }

    private static func sha256(_ data: Data) throws -> String {
        MessageDigest.hexadecimal(try MessageDigest.of(data, .sha256))
    }

    /// Returns a file name as RFC 7578 §4.2 and browsers encode it. Werkzeug decodes the quote itself.
    private func expected(_ name: String, _ parser: Parser) -> String {
        name.unicodeScalars.reduce(into: "") { text, scalar in
            switch scalar {
            case "\r": text += "%0D"
            case "\n": text += "%0A"
            case "\"" where parser != .werkzeug: text += "%22"
            default: text.unicodeScalars.append(scalar)
            }
        }
    }

    @Test(
        arguments: [
            "plain.txt", "with \"quotes\".txt", "a\"; filename=\"evil.sh", "line\r\nContent-Type: text/html\r\n\r\nx",
            "ünïcødé 文件 🦊.bin", "semi;colon=equals&.txt", "percent%20%zz.txt", "tab\t.txt", "'single'.txt", ".hidden",
        ], Parser.allCases)
    func namesArriveUnchanged(name: String, parser: Parser) async throws {
        let form = try await form(
            parser,
            [
                UploadFile(name: "before", value: "1"), UploadFile(name: name, value: "field"),
                UploadFile(name: "f", fileName: name, data: Data("content".utf8), contentType: "a/b"),
                UploadFile(name: "after", value: "2"),
            ])
        let arrived = expected(name, parser)
        #expect(form.fields == [["before", "1"], [arrived, "field"], ["after", "2"]])
        #expect(form.files.count == 1)
        let file = try #require(form.files.first)
        #expect(file.fileName == arrived && file.name == "f" && file.contentType == "a/b" && file.size == 7)
    }

    @Test(arguments: Parser.allCases, ["POST", "PUT", "PATCH"])
    func hundredFilesOfAllKindsArrive(parser: Parser, method: String) async throws {
        var files: [UploadFile] = []
        var digests: [String] = []
        for number in 0..<100 {
            let data = MockPattern.bytes(in: Int64(number)..<Int64(number * 997 + number))
            digests.append(try Self.sha256(data))
            let name = "file \(number).png"
            switch number % 3 {
            case 0: files.append(UploadFile(name: "f\(number)", fileName: name, data: data))
            case 1: files.append(UploadFile(name: "f\(number)", path: try directory.write(data, to: name)))
            default:
                let length = number % 2 == 0 ? Int64(data.count) : nil
                files.append(
                    UploadFile(name: "f\(number)", fileName: name, length: length) { AsyncStream<Data>.of(data) })
            }
        }
        let form = try await form(parser, files, parameters: ["title": "Ferien", "n": 3], method: method)
        #expect(form.fields == [["n", "3"], ["title", "Ferien"]])
        #expect(form.files.map(\.sha256) == digests)
        #expect(form.files.map(\.fileName) == (0..<100).map { "file \($0).png" })
        #expect(form.files.allSatisfy { $0.contentType == "image/png" })
    }

    @Test func largeFileArrivesWhole() async throws {
        let isLarge = ProcessInfo.processInfo.environment["LAT_TEST_LARGE"] != nil
        let size: Int64 = isLarge ? 1 << 30 : 64 << 20
        let path = try directory.writePattern(byteCount: size, to: "large.iso")
        var digest = MessageDigest(.sha256)
        var offset: Int64 = 0
        while offset < size {
            let piece = MockPattern.bytes(in: offset..<min(size, offset + (1 << 20)))
            digest.update(piece)
            offset += Int64(piece.count)
        }
        let base = try #require(Servers.forms)
        let upload = manager.upload("\(base)/werkzeug", files: [UploadFile(name: "iso", path: path)])
        var last: TransferProgress?
        for await progress in upload.progress { last = progress }
        let file = try #require(try await upload.value.decode(Form.self).files.first)
        #expect(file.size == size && last?.completed == size && upload.state == .finished)
        #expect(file.sha256 == MessageDigest.hexadecimal(try digest.finalize()))
    }
}

extension AsyncStream where Element == Data {
    /// Returns a stream of the bytes in chunks of 1000.
    fileprivate static func of(_ data: Data) -> AsyncStream<Data> {
        AsyncStream { continuation in
            var rest = data
            while !rest.isEmpty {
                continuation.yield(Data(rest.prefix(1000)))
                rest = rest.dropFirst(1000)
            }
            continuation.finish()
        }
    }
}
