import HTTPCore
import Testing

@Suite("HTTPMethod")
struct HTTPMethodTests {
    @Test(arguments: ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"])
    func knownMethodsAreRecognisedInAnyCase(_ name: String) {
        let mixed = name.prefix(1) + name.dropFirst().lowercased()
        #expect(HTTPMethod(name).rawValue == name)
        #expect(HTTPMethod(name.lowercased()).rawValue == name)
        #expect(HTTPMethod(String(mixed)).rawValue == name)
        #expect(HTTPMethod(rawValue: name.lowercased()) == HTTPMethod(name))
    }

    @Test func otherTokensKeepTheirCase() {
        #expect(HTTPMethod("PROPFIND").rawValue == "PROPFIND")
        #expect(HTTPMethod("propFind").rawValue == "propFind")
        #expect(HTTPMethod("propfind") != "PROPFIND")
        #expect(HTTPMethod("M-SEARCH").description == "M-SEARCH")
    }

    @Test func literalsEqualConstants() {
        let method: HTTPMethod = "delete"
        #expect(method == .delete)
        #expect(
            [HTTPMethod.get, .head, .post, .put, .connect, .options, .trace, .patch, .query].map(\.rawValue)
                == ["GET", "HEAD", "POST", "PUT", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"])
    }

    @Test(arguments: ["", " ", "GET ", "A B", "GET\r\nX: y", "Ä", "A/B", "A:B", "\"A\"", "A\0"])
    func otherTextIsNotAToken(_ text: String) {
        #expect(!HTTPMethod(text).isToken)
    }

    @Test func everyTokenCharacterIsAccepted() {
        #expect(HTTPMethod("!#$%&'*+-.^_`|~09azAZ").isToken)
    }

    @Test func safeAndIdempotentMethodsAreKnown() {
        for method: HTTPMethod in [.get, .head, .options, .trace, .query] {
            #expect(method.isSafe && method.isIdempotent)
        }
        for method: HTTPMethod in [.put, .delete] {
            #expect(!method.isSafe && method.isIdempotent)
        }
        for method: HTTPMethod in [.post, .patch, .connect, "PURGE"] {
            #expect(!method.isSafe && !method.isIdempotent)
        }
    }

    @Test func parametersOfGetHeadAndDeleteAreInTheQuery() {
        let inQuery: [HTTPMethod] = [.get, .head, .delete]
        let inBody: [HTTPMethod] = [.post, .put, .patch, .options, .query, "PROPFIND"]
        #expect(inQuery.allSatisfy { $0.encodesParametersInQuery })
        #expect(!inBody.contains { $0.encodesParametersInQuery })
    }
}
