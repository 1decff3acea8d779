import Dispatch
import FoundationEssentials
import LATNetworking
import LATTesting

/// A server receives the parts that were sent, with their names and contents, and a name cannot inject a field. The
/// form is sent over a connection, because libcurl writes the parts.
///
/// In the input 0xFF ends a part, and 0xFE ends its name and its file name.
@Sendable func fuzzMultipart(_ bytes: [UInt8]) throws {
    let parts = bytes.split(separator: 0xFF).prefix(8).compactMap { FormPart($0) }
    guard !parts.isEmpty else { return }
    guard let peer = Peer.shared else { return try expect(false, "the server or the manager could not be created") }
    let files = parts.map { UploadFile(name: $0.name, fileName: $0.fileName, data: $0.content) }
    let isDone = DispatchSemaphore(value: 0)
    Task {
        _ = try? await peer.manager.startRequest("POST", peer.server.url("/"), body: .multipart(files))
        isDone.signal()
    }
    isDone.wait()
    let request = peer.server.requests.first
    peer.server.forgetRequests()
    let hasNUL = parts.contains { $0.name.utf8.contains(0) || $0.fileName?.utf8.contains(0) == true }
    guard let request else { return try expect(hasNUL, "the form did not arrive") }
    try expect(!hasNUL, "a NUL was sent")
    let arrived = formParts(of: request)
    let sent = parts.map(\.escaped)
    try expect(arrived == sent, "sent \(sent), arrived \(request.text.debugDescription)")
}

private struct FormPart: Equatable {
    var name: String
    var fileName: String?
    var content: Data

    init(name: String, fileName: String?, content: Data) {
        self.name = name
        self.fileName = fileName
        self.content = content
    }

    init?(_ bytes: ArraySlice<UInt8>) {
        let fields = bytes.split(separator: 0xFE, maxSplits: 2, omittingEmptySubsequences: false)
        guard fields.count == 3 else { return nil }
        self.init(name: text(fields[0]), fileName: fields[1].isEmpty ? nil : text(fields[1]), content: Data(fields[2]))
    }

    /// The part with its names escaped as in browsers (RFC 7578 §2; HTML "escape a multipart form data name").
    var escaped: FormPart {
        FormPart(name: Self.escaped(name), fileName: fileName.map(Self.escaped), content: content)
    }

    private static func escaped(_ name: String) -> String {
        var bytes: [UInt8] = []
        for byte in name.utf8 {
            switch byte {
            case 0x0D: bytes += Array("%0D".utf8)
            case 0x0A: bytes += Array("%0A".utf8)
            case UInt8(ascii: "\""): bytes += Array("%22".utf8)
            default: bytes.append(byte)
            }
        }
        return text(bytes)
    }
}

/// The parts of a request; `nil` when its body is not exactly a form.
private func formParts(of request: RecordedRequest) -> [FormPart]? {
    let type = request.headers["Content-Type"] ?? ""
    guard let start = type.firstRange(of: "boundary=") else { return nil }
    let delimiter = Data("\r\n--\(type[start.upperBound...])".utf8)
    var rest = Data("\r\n".utf8) + request.body
    var parts: [FormPart] = []
    guard rest.starts(with: delimiter) else { return nil }
    rest.removeFirst(delimiter.count)
    while rest.starts(with: Data("\r\n".utf8)) {
        guard let end = rest.firstRange(of: delimiter), let part = formPart(rest.dropFirst(2)[..<end.lowerBound]) else {
            return nil
        }
        parts.append(part)
        rest = rest[end.upperBound...]
    }
    return rest == Data("--\r\n".utf8) ? parts : nil
}

private func formPart(_ bytes: Data) -> FormPart? {
    guard let end = bytes.firstRange(of: Data("\r\n\r\n".utf8)) else { return nil }
    let lines = text(bytes[..<end.lowerBound]).utf8.split(separator: 0x0A).map { String(Substring($0)) }
    let prefix = "Content-Disposition: form-data; name=\""
    guard var line = lines.first?.utf8[...], line.starts(with: prefix.utf8), lines.count <= 2 else { return nil }
    line = line.dropFirst(prefix.utf8.count)
    guard let close = line.firstIndex(of: UInt8(ascii: "\"")) else { return nil }
    let name = text(line[..<close])
    line = line[close...].dropFirst()
    var fileName: String?
    let marker = "; filename=\""
    if line.starts(with: marker.utf8) {
        line = line.dropFirst(marker.utf8.count)
        guard let close = line.firstIndex(of: UInt8(ascii: "\"")) else { return nil }
        fileName = text(line[..<close])
        line = line[close...].dropFirst()
    }
    guard line.allSatisfy({ $0 == 0x0D }) else { return nil }
    return FormPart(name: name, fileName: fileName, content: Data(bytes[end.upperBound...]))
}

/// A server and a manager, shared by all inputs.
private final class Peer: Sendable {
    static let shared = try? Peer()

    let server: MockServer
    let manager: CentralRequestManager

    init() throws {
        server = try MockServer()
        manager = try CentralRequestManager()
        server.route("POST", "/") { _ in .status(204) }
    }
}
