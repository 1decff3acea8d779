import CZlib
import FoundationEssentials
import Glibc

// Writes a Swift file that contains other files, compressed with zlib (RFC 1950). Scripts and style sheets are minified.
// InspectorPagePlugin compiles and runs it.
//
//     InspectorPageGenerator OUTPUT FILE…

/// The bytes in the form that HTTP calls `deflate`.
func deflated(_ data: Data) -> Data? {
    var length = compressBound(uLong(data.count))
    var output = [UInt8](repeating: 0, count: Int(length))
    let code = data.withUnsafeBytes { input in
        compress2(
            &output, &length, input.bindMemory(to: UInt8.self).baseAddress, uLong(data.count), Z_BEST_COMPRESSION)
    }
    return code == Z_OK ? Data(output.prefix(Int(length))) : nil
}

/// The content that is served for a file. Scripts and style sheets are minified.
func served(_ path: String) throws -> Data {
    let data = try Data(contentsOf: URL(filePath: path)), isScript = path.hasSuffix(".js")
    guard isScript || path.hasSuffix(".css") else { return data }
    do {
        return Data(try Stripping.strip(String(decoding: data, as: UTF8.self), isScript: isScript).utf8)
    } catch let failure as Stripping.Failure {
        print("\(path):\(failure.line): error: \(failure.reason)")
        exit(1)
    }
}

let arguments = Array(CommandLine.arguments.dropFirst())
guard arguments.count >= 2 else {
    print("error: usage: InspectorPageGenerator OUTPUT FILE…")
    exit(2)
}
do {
    var text = """
        /// The files of the page by name, each compressed with zlib and in base64.
        let pageFiles: [String: String] = [

        """
    for path in arguments.dropFirst() {
        guard let content = deflated(try served(path)) else {
            print("error: \(path) cannot be compressed")
            exit(1)
        }
        let name = path.split(separator: "/").last ?? ""
        text += "    \"\(name)\": \"\(content.base64EncodedString())\",\n"
    }
    try Data((text + "]\n").utf8).write(to: URL(filePath: arguments[0]), options: .atomic)
} catch {
    print("error: \(error)")
    exit(1)
}
