import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct MethodTests {
    @Test(arguments: ["get", "Get", "GET", "gEt"])
    func getIsAcceptedInAnyCase(_ text: String) async throws {
        let server = try MockServer()
        server.echo(path: "/x")
        _ = try await CentralRequestManager.make().startRequest(text, server.url("/x"))
        #expect(server.requests.map(\.method) == ["GET"])
    }

    @Test(arguments: ["post", "Put", "patch", "delete", "options", "trace", "Head", "query"])
    func knownMethodIsSentInUppercase(_ text: String) async throws {
        let server = try MockServer()
        server.fallback { _ in .status(204) }
        _ = try await CentralRequestManager.make().startRequest(text, server.url("/x"))
        #expect(server.requests.map(\.method) == [text.uppercased()])
    }

    @Test(arguments: ["PROPFIND", "propfind", "M-SEARCH", "Purge", "x!#$%&'*+-.^_`|~9"])
    func otherMethodIsSentUnchanged(_ text: String) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        let manager = try CentralRequestManager.make()
        _ = try await manager.startRequest(text, server.url("/x"))
        _ = try await manager.startRequest(text, server.url("/x"), body: .text("body"))
        #expect(server.requests.map(\.method) == [text, text])
        #expect(server.requests.map(\.text) == ["", "body"])
    }

    @Test(arguments: ["", " ", " GeT ", "GET\r\nX-Injected: 1", "GE T", "GET\0", "MÉTHODE", "GET/1", "(GET)"])
    func invalidMethodIsRefused(_ text: String) async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make()
        let error = await failure { try await manager.startRequest(text, server.url("/x")) }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains("method") == true)
        let recorder = CallRecorder()
        manager.startRequest(text, server.url("/x"), into: recorder)
        await recorder.end()
        #expect(recorder.error?.kind == .invalidRequest)
        #expect(server.acceptedConnections == 0)
    }

    @Test func connectIsRefused() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make()
        let error = await failure { try await manager.startRequest("CONNECT", server.url("/")) }
        #expect(error?.kind == .invalidRequest)
        #expect(server.acceptedConnections == 0)
    }

    @Test func methodsOnOneConnectionDoNotInterfere() async throws {
        let server = try MockServer()
        server.recordsRequests = true
        server.fallback { request in .text("\(request.method):\(request.text)") }
        let manager = try CentralRequestManager.make()
        let url = server.url("/x")
        let calls: [(method: String, body: HTTPBody?)] = [
            ("GET", nil), ("HEAD", nil), ("POST", .text("1")), ("GET", nil), ("PUT", .text("2")), ("HEAD", nil),
            ("PATCH", nil), ("DELETE", nil), ("PROPFIND", nil), ("POST", nil), ("GET", .text("3")),
            (
                "POST",
                .stream {
                    AsyncStream {
                        $0.yield(Data("4".utf8)); $0.finish()
                    }
                }
            ), ("GET", nil),
            ("POST", .multipart([UploadFile(name: "a", value: "5")])), ("HEAD", nil), ("GET", nil),
            ("DELETE", .text("6")), ("OPTIONS", nil),
        ]
        for (method, body) in calls {
            let response = try await manager.startRequest(method, url, body: body)
            #expect(response.text?.hasPrefix("\(method):") ?? false || method == "HEAD")
        }
        let requests = server.requests
        #expect(requests.map(\.method) == calls.map(\.method))
        #expect(
            requests.map { $0.text.count > 50 ? "parts" : $0.text } == [
                "", "", "1", "", "2", "", "", "", "", "", "3", "4", "", "parts", "", "", "6", "",
            ])
        for (request, call) in zip(requests, calls) where call.body == nil {
            #expect(request.headers["Content-Type"] == nil, "\(request)")
            let mayHaveLength = ["POST", "PATCH"].contains(call.method)
            #expect(request.headers["Content-Length"] == (mayHaveLength ? "0" : nil), "\(request)")
            #expect(request.headers["Transfer-Encoding"] == nil, "\(request)")
        }
        #expect(server.acceptedConnections == 1)
    }
}
