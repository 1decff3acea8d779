import FoundationEssentials
import HTTPCore
import Testing

@Suite struct VerbatimTests {
    private struct Film: Codable, Equatable {
        var id: Verbatim<UUID>
        var homepage: Verbatim<URL>?
        var poster: Verbatim<Data>?
    }

    @Test(
        arguments: [
            ["id": "", "homepage": "", "poster": "a"], ["id": "8C0F7A4E", "homepage": "https://x.example/{a} b"],
            ["id": "8c0f7a4e-1A6E-4d5b-9b1c-2a7a6c6f0d11", "poster": "aGk\r\n="],
        ] as [JSONValue]) func textIsKept(_ json: JSONValue) throws
    {
        #expect(try JSONValueEncoder().encode(json.decode(Film.self)) == json)
    }

    @Test func textOfAnotherKindIsRefused() {
        #expect(throws: (any Error).self) { try (["id": 7] as JSONValue).decode(Film.self) }
    }

    @Test(arguments: [
        "0f3b9c52-1a6e-4d5b-9b1c-2a7a6c6f0d11", "0F3B9C521A6E4D5B9B1C2A7A6C6F0D11",
        "{0f3b9c52-1a6e-4d5b-9b1c-2a7a6c6f0d11}",
    ]) func uuidIsThatOfTheText(_ text: String) {
        #expect(Verbatim<UUID>(rawValue: text).value == UUID(uuidString: "0f3b9c52-1a6e-4d5b-9b1c-2a7a6c6f0d11"))
    }

    @Test(arguments: ["", "0f3b", "0f3b9c52-1a6e-4d5b-9b1c-2a7a6c6f0d1é", "xf3b9c521a6e4d5b9b1c2a7a6c6f0d11"])
    func textThatIsNoUUIDHasNone(_ text: String) { #expect(Verbatim<UUID>(rawValue: text).value == nil) }

    @Test(arguments: ["+/8=", "-_8", "+/8", " +/\r\n8= "]) func bytesAreThoseOfBase64(_ text: String) {
        #expect(Verbatim<Data>(rawValue: text).value == Data([0xFB, 0xFF]))
    }

    @Test func valueIsWrittenInItsForm() throws {
        let uuid = UUID()
        #expect(Verbatim(uuid).rawValue == uuid.uuidString.lowercased() && Verbatim(uuid).value == uuid)
        let url = try #require(URL(string: "https://x.example/a?b#c"))
        #expect(Verbatim(url) == "https://x.example/a?b#c" && Verbatim(url).value == url)
        #expect(Verbatim(Data([0xFB, 0xFF])).rawValue == "+/8=" && Verbatim<Data>("a").value == nil)
    }

    @Test func cookiesAreOneFieldAndCannotAddAnother() {
        var headers: HTTPHeaders = ["Cookie": nil]
        headers.appendCookie("a", "1")
        headers.appendCookie("b", "x; y=\"2\"\r\n\u{e9}%20")
        #expect(headers[values: "cookie"] == ["a=1; b=x%3B%20y=%222%22%0D%0A%C3%A9%20"])
    }
}
