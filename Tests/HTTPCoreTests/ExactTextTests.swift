import FoundationEssentials
import Testing

@testable import HTTPCore

/// Texts that Swift considers equal although their bytes differ.
@Suite struct ExactTextTests {
    private let composed = "caf\u{E9}"
    private let decomposed = "cafe\u{301}"

    @Test func equivalentTextsDifferInBytes() {
        #expect(composed == decomposed && !composed.hasSameBytes(as: decomposed))
        #expect(composed.hasSameBytes(as: String(decoding: Array(composed.utf8), as: UTF8.self)))
        #expect(!composed.hasSameBytes(as: "caf") && "".hasSameBytes(as: ""))
        #expect(ExactText(composed) != ExactText(decomposed))
        #expect(![composed].hasSameBytes(as: [decomposed]) && [composed].hasSameBytes(as: [composed]))
        #expect(![composed].hasSameBytes(as: [composed, ""]) && [String]().hasSameBytes(as: []))
        #expect(!String?.none.hasSameBytes(as: "") && String?.none.hasSameBytes(as: nil))
    }

    @Test func requestsWithOtherBytesAreNotEqual() {
        func request(_ change: (inout HTTPRequest, String) -> Void) -> Bool {
            var (one, other) = (HTTPRequest("POST", "http://h/"), HTTPRequest("POST", "http://h/"))
            change(&one, composed)
            var same = one
            change(&same, composed)
            change(&other, decomposed)
            return one == same && one != other
        }
        #expect(request { $0.url = "http://h/" + $1 })
        #expect(request { $0.headers["A"] = $1 })
        #expect(request { $0.body = .text("a", contentType: "text/plain; a=" + $1) })
        #expect(request { $0.body = .file($1, contentType: "text/plain") })
        #expect(request { $0.body = .multipart([UploadFile(name: $1, value: "")]) })
        #expect(request { $0.body = .multipart([UploadFile(name: "a", fileName: "a", path: $1)]) })
        #expect(request { $0.authentication = .basic(user: "u", password: $1) })
        #expect(request { $0.authentication = .bearer(token: $1) })
        #expect(request { $0.proxy = .url("http://u:\($1)@h:1") })
        #expect(request { $0.unixSocketPath = $1 })
        #expect(request { $0.cachePartition = $1 })
        #expect(request { $0.tls = HTTPRequest.TLS(caFile: $1) })
        #expect(request { $0.tls = HTTPRequest.TLS(clientCertificate: .pkcs12(path: $1, password: "")) })
    }
}
