import CLibcurl
package import HTTPCore
import Platform

/// Makes errors from what libcurl and the engine report. This file has those that belong to no transfer.
package enum EngineFailure {
    static let cancelled = NetworkError(.cancelled, message: "the request was cancelled")

    package static let shutDown = NetworkError(
        .shutDown, message: "the manager was shut down; make a new one, or shut it down after its last request")

    static func noResources(_ what: String) -> NetworkError {
        NetworkError(.other, message: "the system has no \(what) left; check ulimit -n and the free memory")
    }

    /// The error for a descriptor that the system has just refused.
    static func noDescriptor(_ error: SystemError, for what: String) -> NetworkError {
        NetworkError(.other, message: "no \(what) can be opened: \(error.text)")
    }

    static func refusedOption(_ option: CURLoption, _ code: CURLcode) -> NetworkError {
        var name = "option \(option.rawValue)"
        if let known = curl_easy_option_by_id(option) { name = "CURLOPT_\(String(cString: known.pointee.name))" }
        return NetworkError(
            [CURLE_NOT_BUILT_IN, CURLE_UNKNOWN_OPTION, CURLE_UNSUPPORTED_PROTOCOL].contains(code)
                ? .unsupported : .other,
            message: "libcurl refused \(name): \(String(cString: curl_easy_strerror(code)))",
            curlCode: Int(code.rawValue))
    }
}
