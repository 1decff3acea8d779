extension HTTPResponse {
    /// The connection that a response came over, and what went over it.
    public struct Connection: Hashable, Sendable {
        /// The number of the connection among those of its manager; `nil` with a libcurl before 8.2.
        public let id: Int64?
        /// The address of the other end, the server or the proxy: `203.0.113.7`, `2001:db8::1`. Empty for a Unix domain socket.
        public let remoteAddress: String
        /// The port of the other end; 0 for a Unix domain socket.
        public let remotePort: Int
        /// The port of this end; 0 for a Unix domain socket.
        public let localPort: Int
        /// Whether the connection was open before the request.
        public let isReused: Bool
        /// The bytes of the request's body on the wire.
        public let sentBodySize: Int64
        /// The bytes of the response's body on the wire, before they were decompressed; `nil` for a stream.
        public let receivedBodySize: Int64?
        /// The bytes of the response's head. Over HTTP/2 and HTTP/3 those of its fields as text.
        public let headSize: Int

        /// Makes a description, for transports other than the engine. By default the id and the size of the received
        /// body are unknown, the connection is new, and the other numbers are 0.
        public init(
            id: Int64? = nil, remoteAddress: String, remotePort: Int, localPort: Int = 0, isReused: Bool = false,
            sentBodySize: Int64 = 0, receivedBodySize: Int64? = nil, headSize: Int = 0
        ) {
            self.id = id
            self.remoteAddress = remoteAddress
            self.remotePort = remotePort
            self.localPort = localPort
            self.isReused = isReused
            self.sentBodySize = sentBodySize
            self.receivedBodySize = receivedBodySize
            self.headSize = headSize
        }
    }

    /// The connection; `nil` for a response that came over none, and for a call without observers (`RequestAccessory`).
    public var connection: Connection? {
        get { connectionFacts?.value }
        set { connectionFacts = newValue.map(ConnectionFacts.init) }
    }
}

/// A box for a connection's description, so that a response stays small.
package final class ConnectionFacts: Sendable {
    let value: HTTPResponse.Connection

    init(_ value: HTTPResponse.Connection) { self.value = value }
}
