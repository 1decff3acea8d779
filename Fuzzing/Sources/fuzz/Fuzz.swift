import Glibc

/// `fuzz TARGET [OPTION OR FOLDER…]`: gives one of the targets to libFuzzer, with its options
/// (<https://llvm.org/docs/LibFuzzer.html#options>). Without a target it lists them.
@main
enum Fuzz {
    /// Set before libFuzzer begins, and never again.
    nonisolated(unsafe) private static var chosen: FuzzTarget?

    static func main() {
        guard let name = CommandLine.arguments.dropFirst().first else {
            for target in FuzzTarget.all { print(target.name) }
            return
        }
        chosen = FuzzTarget.all.first { $0.name == name }
        guard chosen != nil else { stop("there is no target \(name)") }
        var arguments = ([CommandLine.arguments[0]] + CommandLine.arguments.dropFirst(2)).map { strdup($0) } + [nil]
        var count = CInt(arguments.count - 1)
        arguments.withUnsafeMutableBufferPointer { buffer in
            var first = buffer.baseAddress
            exit(runFuzzer(&count, &first, fuzzOneInput))
        }
    }

    fileprivate static func run(_ bytes: UnsafeBufferPointer<UInt8>) -> CInt {
        do {
            try chosen?.run(Array(bytes))
        } catch {
            stop("\(error)")
        }
        return 0
    }

    /// Prints the fault and aborts, so that libFuzzer saves the input.
    private static func stop(_ reason: String) -> Never {
        let line = "fault: \(reason)\n"
        write(STDERR_FILENO, line, line.utf8.count)
        abort()
    }
}

/// libFuzzer's library needs a function of this name, although its driver also receives the function as an argument.
@_cdecl("LLVMFuzzerTestOneInput")
func fuzzOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    Fuzz.run(UnsafeBufferPointer(start: bytes, count: count))
}

/// The loop of libFuzzer, for programs with their own `main`.
@_silgen_name("LLVMFuzzerRunDriver")
private func runFuzzer(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
    _ body: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt
