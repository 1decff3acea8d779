import CurlTransport
import HTTPCore
import LATTesting

/// A server with several host names that sets cookies and shows those it receives.
struct CookiePlaces {
    /// Returns settings that resolve the host names to the server: a domain and two subdomains, another domain, and two
    /// domains under the public suffix `co.uk`.
    func configuration(
        _ server: MockServer, _ cookies: EngineConfiguration.CookiePolicy = .memory
    ) -> EngineConfiguration {
        testConfiguration {
            $0.cookies = cookies
            for host in ["example.org", "a.example.org", "b.example.org", "other.net", "shop.co.uk", "evil.co.uk"] {
                $0.resolve["\(host):\(server.port)"] = "127.0.0.1"
            }
        }
    }

    /// Returns a server that sets the cookies of the query items `set` and responds with the `Cookie` fields it received.
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
