import FoundationEssentials
import Testing

@testable import HTTPCore

/// Multipart bodies that nobody sends honestly. The sizes are so large that work which grows with their square would take many
/// minutes.
@Suite(.timeLimit(.minutes(5))) struct LargeFormTests {
    private static let part = "Content-Disposition: form-data; name=\"NAME\"\r\n\r\n"

    private func type(_ boundary: String) -> String { "multipart/form-data; boundary=\(boundary)" }

    private func parts(_ body: Data, _ boundary: String) -> [RedactedBody.Part] {
        var redactor = Redactor(.standard)
        guard case .parts(let parts) = redactor.body(body, type: type(boundary)) else { return [] }
        return parts
    }

    @Test func manyPartsAreRead() {
        let text = (0..<20_000).map { number in
            "--b\r\n\(Self.part.replacing("NAME", with: number % 2 == 0 ? "password" : "n"))value-\(number)\r\n"
        }.joined()
        let body = Data((text + "--b--\r\n").utf8)
        let found = parts(body, "b")
        #expect(found.count == 20_000 && found[0].text == "***" && found[1].text == "value-1")
        let shown = Redactor(.standard).shown(body, type("b"))
        #expect(!shown.contains("value-0\r") && shown.contains("value-19999\r") && !shown.contains("value-19998\r"))
    }

    /// A boundary that each place of the body begins with.
    @Test func longBoundaryIsComparedOncePerLine() {
        let boundary = String(repeating: "-", count: 60_000) + "x"
        for body in [String(repeating: "-", count: 8 << 20), String(repeating: "-----\r\n", count: 1 << 17)] {
            #expect(parts(Data(body.utf8), boundary).isEmpty)
            #expect(Redactor(.standard).shown(Data(body.utf8), type(boundary)).utf8.count == body.utf8.count)
        }
    }

    @Test(arguments: ["", "--b", "--b\r\n", "--b\r\n\r\n", "x--b\r\n", "--b--", "--b\r\n--b\r\n--b--"])
    func formWithoutPartsIsUnchanged(body: String) {
        #expect(Redactor(.standard).shown(Data(body.utf8), type("b")) == body)
    }
}

extension Redactor {
    fileprivate func shown(_ body: Data, _ type: String) -> String {
        String(decoding: withoutSecretParts(body, type), as: UTF8.self)
    }
}
