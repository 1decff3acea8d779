import LATNetworking

extension CentralRequestManager {
    /// Returns a manager with changed settings and without a proxy.
    static func make(_ change: (inout Configuration) -> Void = { _ in }) throws -> CentralRequestManager {
        var configuration = Configuration()
        configuration.proxy = .direct
        change(&configuration)
        return try CentralRequestManager(configuration: configuration)
    }
}
