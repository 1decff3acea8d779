import Testing
import XCTest

/// The program of all tests. With it the build need not look for tests of XCTest in the index, which it then need not make.
@main
struct TestProgram {
    static func main() async {
        if CommandLine.arguments.contains("swift-testing") {
            await Testing.__swiftPMEntryPoint() as Never
        }
        XCTMain([])
    }
}
