import BenchmarkSupport
import Foundation
import Glibc
import LATNetworking

/// Mode `download`.
func download(_ manager: CentralRequestManager, _ arguments: Arguments, to path: String) async throws {
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard file >= 0 else { throw Failure("\(path): \(String(cString: strerror(errno)))") }
    defer { close(file) }
    let measurement = Measurement("lat", arguments)
    for try await chunk in try await manager.stream("GET", arguments.url).body {
        try write(chunk, to: file)
    }
    measurement.finish()
}

private func write(_ chunk: Data, to file: Int32) throws {
    try chunk.withUnsafeBytes { bytes in
        var rest = bytes[...]
        while !rest.isEmpty {
            let written = Glibc.write(file, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
            if written < 0 && errno == EINTR { continue }
            guard written > 0 else { throw Failure("write: \(String(cString: strerror(errno)))") }
            rest = rest.dropFirst(written)
        }
    }
}
