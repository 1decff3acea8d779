import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import lat

/// `lat man`, read by the system's man and groff.
@Suite(.timeLimit(.minutes(1))) struct ManualPageTests {
    @Test(.needs("man"), .needs("groff")) func manShowsThePageWithoutWarnings() async throws {
        let folder = try TemporaryDirectory()
        let result = try await Shell.run(
            "/bin/sh", "lat man > lat.1 && man --warnings -P cat -E UTF-8 -l lat.1", in: folder)
        #expect(result.exitCode == 0 && result.err == "", "\(result.err)")
        for command in Commands.all {
            #expect(result.text.contains("\n   \(command.name)"), "\(command.name)")
            for option in command.options { #expect(result.text.contains(option.name)) }
        }
        for text in ["-H, --header 'K: V'", "$XDG_CACHE_HOME/lat", "NAME=PATH…", "\"\" for none", "EXIT STATUS"] {
            #expect(result.text.contains(text), "\(text)")
        }
    }

    @Test func everyLineIsTextOrAKnownMacro() {
        let macros = Set(["TH", "SH", "SS", "TP", "PP", "B", "BR", "RS", "RE", "nf", "fi", "br"])
        for line in ManualPage.text.split(separator: "\n") where line.hasPrefix(".") || line.hasPrefix("'") {
            #expect(macros.contains(String(line.dropFirst().prefix { $0 != " " })), "\(line)")
        }
        #expect(ManualPage.text.unicodeScalars.allSatisfy { $0.isASCII })
    }
}
