import FoundationEssentials
import Glibc
import Testing

@testable import HTTPCore

@Suite struct NetworkErrorTests {
    @Test(arguments: [
        ("http://h/x?token=s", "http://h/x?…"), ("http://u:s@h/x", "http://h/x"), ("http://h/x#s", "http://h/x"),
        ("http://u:s@h?q=s#s", "http://h?…"), ("http://h/a@b", "http://h/a@b"), ("http://u:a@s@h/", "http://h/"),
        ("/relative?s", "/relative?…"), ("", ""), ("http://h/x#s?s", "http://h/x"),
        // Without a scheme.
        ("u:s@h/x", "h/x"), ("u:s@h?q=s", "h?…"), ("//u:s@h/x", "//h/x"), ("@ada/posts?s", "@ada/posts?…"),
        ("/a:b@c", "/a:b@c"), ("items/a:b@c", "items/a:b@c"), ("/x?next=http://u:s@h/", "/x?…"),
        // A delimiter in the password.
        ("http://u:s#s@h/", "http://…"), ("http://u:s?s@h/", "http://…"), ("http://u:s/s@h/", "http://…"),
        ("http://u:12#s@h/", "http://…"), ("u:s#s@h/", "…"), ("u:s://s@h/", "…"), ("http://u:s#s@h/?q=s@s", "http://…"),
        ("http://u:s@\u{301}h/", "http://\u{301}h/"), ("http://h:80/a?mail=s@s", "http://h:80/a?…"),
        ("http://[::1]:80/a@b", "http://[::1]:80/a@b"), ("http://h:port/x", "http://h:port/x"),
    ])
    func urlsAreShownWithoutSecrets(_ url: String, _ shown: String) {
        #expect(URLParts.redacted(url) == shown)
    }

    /// A `?` followed by a combining mark is one `Character`.
    @Test func queryBeforeACombiningMarkIsRedacted() {
        #expect(!URLParts.redacted("http://h/x?\u{301}token=secret").contains("secret"))
        #expect(!URLParts.redacted("http://h/x#\u{301}secret").contains("secret"))
    }

    @Test func descriptionHasKindMessageAndURL() {
        let request = HTTPRequest("GET", "http://u:p@h/x?token=s", headers: ["Authorization": "s"])
        let error = NetworkError(.timeout(.idle), message: "silence; try again", request: request)
        #expect("\(error)" == "timeout(idle): silence; try again [GET http://h/x?…]")
        #expect("\(NetworkError(.tls(.expired), message: "m"))" == "tls(expired): m")
        #expect("\(NetworkError(.decoding(path: "a[0]"), message: "m"))" == "decoding(a[0]): m")
        #expect("\(NetworkError(.decoding(path: ""), message: "m"))" == "decoding: m")
        #expect("\(NetworkError(.httpStatus, message: "m"))" == "httpStatus: m")
    }

    /// One of the requests of an upload is not the request of the caller.
    @Test func descriptionHasTheMethodThatWasSent() {
        let error = NetworkError(.connect, message: "m", request: HTTPRequest("PATCH", "http://h/u"))
            .of(HTTPRequest("PUT", "http://h/files"))
        #expect(error.request?.method == .put && "\(error)" == "connect: m [PATCH http://h/u]")
    }

    @Test func debugDescriptionHasNoSecrets() {
        let request = HTTPRequest(
            "POST", "http://u:hunter2@h/x?token=hunter2", headers: ["Authorization": "hunter2"],
            body: .text("hunter2"))
        let error = NetworkError(.connect, message: "refused", request: request)
        #expect(!String(reflecting: error).contains("hunter2"))
        #expect(!"\(error as any Error)".contains("hunter2"))
    }

    /// `FileManager` reports the number of the system within its own error.
    @Test(arguments: [(POSIXErrorCode.EMFILE, "ulimit -n"), (.ENFILE, "fs.file-max"), (.EEXIST, "Not a directory")])
    func reasonOfAFileErrorHasTheAdvice(_ code: POSIXErrorCode, _ words: String) {
        let error = CocoaError(.fileWriteUnknown, userInfo: ["NSUnderlyingError": POSIXError(code)])
        #expect(NetworkError.reason(of: error).contains(words))
        #expect(NetworkError.reason(of: CancellationError()) == "CancellationError()")
    }

    @Test func firstAttachedRequestStays() {
        let first = HTTPRequest("GET", "http://h/1")
        let error = NetworkError(.connect, message: "m", curlCode: 7, underlying: CocoaError(.fileNoSuchFile))
        #expect(error.attaching(first).request?.url == "http://h/1")
        #expect(error.attaching(first).attaching(HTTPRequest("GET", "http://h/2")).request?.url == "http://h/1")
        let counted = error.attaching(first).counting(attempts: 4)
        #expect(counted.attempts == 4)
        #expect(counted.curlCode == 7)
        #expect(counted.underlying is CocoaError)
        #expect(error.attempts == 1)
    }
}
