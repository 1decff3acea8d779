import Dispatch
import Testing
import XCTest

/// The program of all tests. With it the build need not look for tests of XCTest in the index, which it then need not make.
@main
struct TestProgram {
    /// Not `async`: the function that the compiler makes of such a one has the same name in each program, and in a release
    /// build the tests began with that of a program that they start.
    static func main() {
        guard CommandLine.arguments.contains("swift-testing") else { XCTMain([]) }
        Task { await Testing.__swiftPMEntryPoint() as Never }
        dispatchMain()
    }
}
