import LATFleet
import TestSupport

extension RedisServer {
    /// Settings for this server, with warnings kept silent.
    func configuration(_ change: (inout FleetConfiguration) -> Void = { _ in }) -> FleetConfiguration {
        var configuration = FleetConfiguration()
        switch place {
        case .socket: configuration.address = .unixSocket(path: socketPath)
        case .port: configuration.address = .host("127.0.0.1", port: port)
        case .tls:
            configuration.address = .host("localhost", port: port)
            configuration.isSecure = true
            configuration.tls.caFile = TestCertificates.shared?.authority
        }
        configuration.password = Self.password
        // A machine that is busy for seconds must not look like a lost connection.
        configuration.heartbeat = .seconds(60)
        configuration.connectTimeout = .seconds(20)
        configuration.warningHandler = { _ in }
        change(&configuration)
        return configuration
    }
}
