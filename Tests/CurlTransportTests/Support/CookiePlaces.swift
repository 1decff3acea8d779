import CurlTransport
import HTTPCore
import LATTesting

/// A server under several names, which sets and shows cookies.
struct CookiePlaces {
    /// Names that lead to a server; a name that is no public suffix, two below it, one elsewhere, and one below `co.uk`.
    func configuration(
        _ server: MockServer, _ cookies: CookiePolicy = .memory
    ) -> CurlTransport.Configuration {
        testConfiguration {
            $0.cookies = cookies
            for host in ["example.org", "a.example.org", "b.example.org", "other.net", "shop.co.uk", "evil.co.uk"] {
                $0.resolve["\(host):\(server.port)"] = "127.0.0.1"
            }
        }
    }

    /// A server that sets what the query of `/set` says, `|` between fields, and shows the cookies it got elsewhere.
    func server() throws -> MockServer {
        let server = try MockServer()
        server.fallback { request in
            var reply = MockReply.text(request.headers[values: "Cookie"].joined(separator: " AND "))
            for item in request.queryItems where item.name == "set" {
                reply.headers.append("Set-Cookie", item.value ?? "")
            }
            return reply
        }
        return server
    }

    func url(_ server: MockServer, _ host: String, _ path: String = "/", set cookies: [String] = []) -> String {
        let query = cookies.map { "set=" + $0.percentEncodedComponent }.joined(separator: "&")
        return "http://\(host):\(server.port)\(path)" + (query.isEmpty ? "" : "?" + query)
    }
}
