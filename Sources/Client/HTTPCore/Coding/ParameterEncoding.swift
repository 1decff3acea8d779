/// How parameters are encoded as a body.
public enum ParameterEncoding: String, Hashable, Sendable, CaseIterable {
    /// A JSON object; numbers and Booleans stay typed. The default.
    case json
    /// `application/x-www-form-urlencoded`.
    case form

    package var contentType: String {
        switch self {
        case .json: "application/json"
        case .form: "application/x-www-form-urlencoded"
        }
    }
}

extension ParameterEncoding {
    /// How an array or an object is written in a query or a form.
    ///
    /// For a single parameter, each is also a form of objects. Below brackets a list has brackets too: `filter[ids][]=1`.
    /// Objects in a list are numbered, `items[0][a]=1`, unless `brackets` is the rule of all lists.
    public enum Arrays: String, Hashable, Sendable, CaseIterable {
        /// `ids[]=1&ids[]=2`; `filter[a]=1&filter[b]=2` for an object. The default.
        case brackets
        /// `ids=1&ids=2`: the default of OpenAPI; `a=1&b=2` for an object.
        case repeated
        /// `ids=1,2`; `filter=a,1,b,2` for an object.
        case comma
        /// `ids=1%202`.
        case space
        /// `ids=1%7C2`.
        case pipe
        /// `ids=[1,2]`; `filter={"a":1,"b":2}` for an object. A part of a multipart form has the type `application/json`.
        case json

        /// What stands between the elements of a single value; `nil` for a value of its own for each element.
        var separator: String? {
            switch self {
            case .brackets, .repeated, .json: nil
            case .comma: ","
            case .space: " "
            case .pipe: "|"
            }
        }
    }

    /// How the parameters of a row are divided between query and body, and how arrays are written.
    package struct QueryRule: Hashable, Sendable {
        package var arrays: Arrays
        package var styles: [String: Arrays]
        /// The parameters that go into the query, whatever the method.
        package var names: Set<String>
        package var takesAll: Bool

        package init(
            arrays: Arrays = .brackets, styles: [String: Arrays] = [:], names: Set<String> = [], takesAll: Bool = false
        ) {
            (self.arrays, self.styles, self.names, self.takesAll) = (arrays, styles, names, takesAll)
        }
    }
}
