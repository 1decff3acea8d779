import HTTPCore
import LATTesting
import Testing

@testable import CurlTransport

@Suite struct DefaultUserAgentTests {
    @Test func namesSystemAndArchitecture() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\n"
        #expect(
            DefaultUserAgent.text(version: "1.0", release: debian, architecture: "x86_64")
                == "LATNetworking/1.0 (Debian 12; x86_64)")
        #expect(
            DefaultUserAgent.text(version: "1.0", release: "NAME='Arch Linux'\n", architecture: nil)
                == "LATNetworking/1.0 (Arch)")
        #expect(
            DefaultUserAgent.text(version: "1.0", release: nil, architecture: "aarch64")
                == "LATNetworking/1.0 (Linux; aarch64)")
    }

    @Test func delimitersAreRemovedFromTheComment() {
        let text = DefaultUserAgent.text(
            version: "1", release: "NAME=\"a)\\(;\u{1}é\r\"\nVERSION_ID=(\n", architecture: "x;y")
        #expect(text == "LATNetworking/1 (a ; xy)")
    }

    @Test func defaultIsSentWithoutOwnField() async throws {
        let server = try MockServer()
        server.enqueue(.status(200))
        let transport = try CurlTransport()
        _ = try await transport.send(HTTPRequest("GET", server.url("/")))
        let sent = try #require(server.requests.first?.headers["User-Agent"])
        #expect(sent == DefaultUserAgent.value && sent.hasPrefix("LATNetworking/\(CurlTransport.version) ("))
        await transport.shutdown()
    }
}
