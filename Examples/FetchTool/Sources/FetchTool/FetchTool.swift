import Foundation
import LATNetworking

/// A command-line tool that downloads a file: arguments, a progress bar, exit codes, Ctrl-C, and an interrupted
/// download that the same command resumes. Run it with `swift run FetchTool URL -o FILE`. Without arguments it
/// runs a trial against a server of its own, as `scripts/examples` does.
@main
struct FetchTool {
    static func main() async {
        let arguments = Array(CommandLine.arguments.dropFirst())
        exit((arguments.isEmpty ? Trial.run() : await fetch(arguments)).rawValue)
    }

    static func fetch(_ arguments: [String]) async -> ExitCode {
        do {
            let options = try Options(arguments)
            var configuration = CentralRequestManager.Configuration()
            configuration.timeout = nil  // A download may take any time; idleTimeout ends one that stalls.
            configuration.retries = 3
            let manager = try CentralRequestManager(configuration: configuration)
            var choices = DownloadOptions()
            choices.digest = options.sha256.map { .sha256($0) }
            let download = manager.download(
                options.url, to: options.output, segments: options.connections, options: choices)

            // The received bytes stay beside the target, and the same command continues from there.
            let interrupts = [SIGINT, SIGTERM].map { on($0) { download.cancel(keepingProgress: true) } }
            defer { for interrupt in interrupts { interrupt.cancel() } }

            var bar = ProgressBar()
            for await progress in download.progress { bar.show(progress) }
            bar.clear()
            let file = try await download.value
            let resumed = file.resumedByteCount > 0 ? ", \(file.resumedByteCount) of them from an earlier run" : ""
            print("\(file.path): \(file.byteCount) bytes\(resumed)")
            return .success
        } catch let error as NetworkError where error.kind == .cancelled {
            complain("stopped; the same command goes on from here")
            return .interrupted
        } catch let error as NetworkError {
            complain(error.description)
            return ExitCode(error)
        } catch {
            complain("\(error)\nusage: fetch URL [-o FILE] [-n CONNECTIONS] [--sha256 HEX]")
            return .usage
        }
    }

    /// Calls a closure for each signal instead of its default action.
    static func on(_ number: Int32, _ action: @escaping @Sendable () -> Void) -> any DispatchSourceSignal {
        signal(number, SIG_IGN)
        let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
        source.setEventHandler(handler: action)
        source.resume()
        return source
    }

    static func complain(_ text: String) { FileHandle.standardError.write(Data("fetch: \(text)\n".utf8)) }
}

/// Tells a script what happened.
enum ExitCode: Int32 {
    case success = 0
    /// The server refused, or the content is not the expected one.
    case refused = 1
    /// The command line or the target cannot be used.
    case usage = 2
    case network = 3
    case interrupted = 130

    init(_ error: NetworkError) {
        switch error.kind {
        case .httpStatus, .integrity: self = .refused
        case .invalidRequest, .storage: self = .usage
        default: self = .network
        }
    }
}
