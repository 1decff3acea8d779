package import CurlTransport
import Glibc
import HTTPCore

extension UnreachableReason {
    /// The reason in what a probe came back with; `nil` when it connected.
    package init?(_ report: ConnectionReport) {
        guard let error = report.error else { return nil }
        if let verdict = report.proxyVerdict {
            self.init(verdict)
            return
        }
        switch error.kind {
        case .connect where report.proxy != nil: self = .proxy
        case .connect: self = Self.reason(ofSystemError: report.systemError)
        // libcurl's word for a name server that does not answer in time.
        case .timeout where !report.isResolved: self = .dns
        default: self.init(error)
        }
    }

    /// The reason in an error of a request.
    init(_ error: NetworkError) {
        self =
            switch error.kind {
            case .dns: .dns
            case .connect: .refused
            case .timeout: .timeout
            case .tls: .tls
            case .proxy: .proxy
            case .connectionLost: .network
            case .unknownName, .invalidRequest: .unknownName
            default: .other
            }
    }

    private static func reason(ofSystemError error: Int32) -> UnreachableReason {
        switch error {
        case ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN, EADDRNOTAVAIL, EINVAL, EACCES, EPERM: .network
        case ETIMEDOUT: .timeout
        default: .refused
        }
    }

    private init(_ verdict: ProxyVerdict) {
        self =
            switch verdict {
            case .nameNotFound: .dns
            case .refused: .refused
            case .unreachable: .network
            case .expired: .timeout
            case .failed: .proxy
            }
    }
}
