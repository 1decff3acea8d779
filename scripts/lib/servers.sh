# shellcheck shell=bash
# Real servers on free loopback ports for scripts/test and scripts/bench: nginx with its own configuration, and httpbin and
# forms.py under gunicorn. Sourced after common.sh, never run. All files are in one temporary directory. The caller puts
# servers_stop into its EXIT trap.

: "${root:?source common.sh first}"
servers_dir=""
servers_pids=()
servers_ports=()
servers_address=""

# Runs a server in the background. It ends even when the script is killed and cannot clean up.
servers_spawn() {
    local log="$1"
    shift
    : >"$log"
    if command -v setpriv >/dev/null && setpriv --pdeathsig TERM true 2>/dev/null; then
        setpriv --pdeathsig TERM "$@" </dev/null >>"$log" 2>&1 &
    else
        "$@" </dev/null >>"$log" 2>&1 &
    fi
    servers_pids+=("$!")
}

# Makes the directory for all files.
servers_prepare() {
    servers_dir="$(mktemp -d "${TMPDIR:-/tmp}/lat-servers.XXXXXX")"
    # When run as root, nginx runs its workers as nobody, who needs access.
    chmod 755 "$servers_dir"
}

# Ends all servers and removes their files. Safe to call twice, and before any server was started.
servers_stop() {
    local pid
    for pid in "${servers_pids[@]}"; do
        kill -TERM "$pid" 2>/dev/null || true
    done
    for pid in "${servers_pids[@]}"; do
        wait "$pid" 2>/dev/null || true
    done
    servers_pids=()
    if [[ -n "$servers_dir" ]]; then
        rm -rf "$servers_dir"
        servers_dir=""
    fi
}

# Fills servers_ports with $1 loopback ports that are free right now.
servers_free_ports() {
    read -r -a servers_ports < <(
        python3 - "$1" <<'PYTHON'
import socket, sys
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in sockets))
PYTHON
    )
}

# Waits up to 30 seconds until $1 responds with any HTTP status; fails when process $2 ends. Uses Python, because the tests do
# not need the curl program.
servers_await() {
    python3 - "$1" "$2" <<'PYTHON'
import http.client, os, sys, time, urllib.parse
url, pid = urllib.parse.urlsplit(sys.argv[1]), int(sys.argv[2])
end = time.monotonic() + 30
while time.monotonic() < end:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            if stat.read().rpartition(")")[2].split()[0] == "Z":
                sys.exit(1)
    except FileNotFoundError:
        sys.exit(1)
    try:
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=5)
        connection.request("GET", url.path or "/")
        connection.getresponse().read()
        sys.exit(0)
    except OSError:
        time.sleep(0.02)
sys.exit(1)
PYTHON
}

# Makes the files that nginx serves: empty.bin, 1k.bin, 4k.bin and 1m.bin; the sparse files 200m.bin and 1g.bin; two
# documents of 1,024 bytes, 1k.json and 1k-text.json, the latter mostly one string; and events.txt, an event stream of
# 100,000 events.
servers_make_files() {
    local files="$servers_dir/files"
    mkdir -p "$files" "$servers_dir/dav" "$servers_dir/body"
    chmod 1777 "$servers_dir/dav"
    python3 - "$files" <<'PYTHON'
import json, os, sys
# The content varies, so that a comparison reveals a lost or duplicated byte.
text = "".join(f"{n:07d}\n" for n in range(131072)).encode()
for name, size in (("empty", 0), ("1k", 1 << 10), ("4k", 4 << 10), ("1m", 1 << 20)):
    with open(os.path.join(sys.argv[1], name + ".bin"), "wb") as file:
        file.write(text[:size])
# A typical response of an API: an article with members of every type, its text padded to the size.
document = {
    "id": 42, "title": "Note G", "published": True, "rating": 4.5, "views": 1843,
    "author": {"id": 1815, "name": "Ada Lovelace", "city": "London"},
    "tags": ["mathematics", "engines", "poetry"],
    "comments": [{"id": n, "name": f"reader {n}", "text": "Read with pleasure."} for n in range(1, 4)],
    "text": "",
}
sentence = "The engine weaves algebraic patterns, just as the loom weaves flowers and leaves. "
short = {"id": 42, "title": "Note G", "text": ""}
with open(os.path.join(sys.argv[1], "events.txt"), "w") as file:
    for n in range(1, 100001):
        file.write(f"id: {n}\ndata: {{\"n\": {n}}}\n\n")
for name, document in (("1k.json", document), ("1k-text.json", short)):
    document["text"] = (sentence * 13)[:(1 << 10) - len(json.dumps(document))]
    with open(os.path.join(sys.argv[1], name), "w") as file:
        file.write(json.dumps(document))
PYTHON
    truncate -s 1G "$files/1g.bin"
    truncate -s 200M "$files/200m.bin"
}

# Makes a certificate authority, and a certificate for localhost and 127.0.0.1 that it signs.
servers_make_certificates() {
    local tls="$servers_dir/tls"
    mkdir -p "$tls"
    if ! (
        cd "$tls"
        openssl ecparam -name prime256v1 -genkey -noout -out ca.key
        openssl req -x509 -new -key ca.key -sha256 -days 2 -subj "/CN=LATNetworking test CA" \
            -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" -out ca.pem
        openssl ecparam -name prime256v1 -genkey -noout -out server.key
        openssl req -new -key server.key -subj "/CN=localhost" -out server.csr
        printf '%s\n' "subjectAltName=DNS:localhost,IP:127.0.0.1" "extendedKeyUsage=serverAuth,clientAuth" >server.ext
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -sha256 -days 2 \
            -extfile server.ext -out server.pem
    ) >"$tls/openssl.log" 2>&1; then
        cat "$tls/openssl.log" >&2
        fail "openssl could not make the test certificates; the reason is above."
    fi
}

# Writes the configuration of nginx for the ports in servers_ports: HTTP, HTTPS, h2c, GOAWAY, the backend of /sink, and HTTPS
# with a new connection for each request.
servers_write_nginx_configuration() {
    local http="${servers_ports[0]}" https="${servers_ports[1]}" h2c="${servers_ports[2]}"
    local goaway="${servers_ports[3]}" sink="${servers_ports[4]}" once="${servers_ports[5]}"
    local page user="" tls_listen="ssl http2" plain_listen=" http2" http2_on="" version counters=""
    ((EUID == 0)) && user="user nobody $(id -gn nobody);"
    # Since nginx 1.25.1 HTTP/2 has its own directive.
    version="$(nginx -v 2>&1 | sed -n 's/.*nginx\/\([0-9.]*\).*/\1/p')"
    if [[ "$(printf '%s\n' 1.25.1 "$version" | sort -V | head -n 1)" == 1.25.1 ]]; then
        tls_listen="ssl" plain_listen="" http2_on="http2 on;"
    fi
    # Not every nginx is built with this module.
    if [[ "$(nginx -V 2>&1)" == *http_stub_status_module* ]]; then
        counters="location = /counters { stub_status; }"
    fi
    cat >"$servers_dir/locations.conf" <<NGINX
root $servers_dir/files;
location / { }
location = /events.txt { default_type text/event-stream; }
# A list of 1,000 pages, each 1k.json: /pages?page=1, with the field Link.
location = /pages { default_type application/json; add_header Link \$lat_next_page; return 200 '$(<"$servers_dir/files/1k.json")'; }
# The same files, compressed on the fly.
location /gzip/ {
    alias $servers_dir/files/;
    gzip on; gzip_types *; gzip_min_length 1; gzip_proxied any; gzip_http_version 1.0;
}
# The same files at 10 MB/s.
location /limited/ { alias $servers_dir/files/; limit_rate 10m; }
# The same files. An HTTP/1.1 connection is closed after three requests.
location /three/ { alias $servers_dir/files/; keepalive_requests 3; }
# Reads and discards a request body of any length, then responds with the Content-Length of the request.
location /sink {
    client_body_temp_path $servers_dir/body;
    proxy_pass_request_body off;
    proxy_set_header Content-Length "";
    proxy_set_header X-Received-Length \$content_length;
    proxy_pass http://127.0.0.1:$sink;
}
# Reads and discards a request body, then responds with 1k.json.
location = /post { default_type application/json; return 200 '$(<"$servers_dir/files/1k.json")'; }
# The number of connections that nginx has accepted.
$counters
# Forwards a request to a port of the test, and the response without buffering.
location ~ ^/to/([0-9]+)(/.*)\$ {
    proxy_pass http://127.0.0.1:\$1\$2;
    proxy_http_version 1.1;
    proxy_buffering off;
    proxy_redirect off;
}
# The same for WebSockets.
location ~ ^/sockets/([0-9]+)(/.*)\$ {
    proxy_pass http://127.0.0.1:\$1\$2;
    proxy_http_version 1.1;
    proxy_set_header Upgrade \$http_upgrade;
    proxy_set_header Connection upgrade;
}
# The files stored by PUT below, for downloads. ?rate= limits the bytes per second and connection. The path, status, content
# length, range and X-Run of each request are logged in LAT_TEST_NGINX_TRANSFERS.
location /transfers/ {
    alias $servers_dir/dav/;
    limit_rate \$arg_rate;
    access_log $servers_dir/transfers.log transfers;
}
# PUT stores a file, GET returns it, DELETE removes it.
location /dav/ {
    alias $servers_dir/dav/;
    dav_methods PUT DELETE;
    create_full_put_path on;
    client_body_temp_path $servers_dir/dav;
}
NGINX
    for ((page = 1; page < 1000; page++)); do
        echo "$page '</pages?page=$((page + 1))>; rel=\"next\"';"
    done >"$servers_dir/pages.conf"
    cat >"$servers_dir/nginx.conf" <<NGINX
daemon off;
$user
worker_processes ${LAT_NGINX_WORKERS:-auto};
worker_rlimit_nofile $(ulimit -n);
pid $servers_dir/nginx.pid;
error_log $servers_dir/nginx.log error;
events { worker_connections 8192; }
http {
    default_type application/octet-stream;
    access_log off;
    log_format transfers "\$uri \$status \$body_bytes_sent \$http_range \$http_x_run";
    server_tokens off;
    map \$arg_page \$lat_next_page { include $servers_dir/pages.conf; }
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    client_max_body_size 0;
    client_body_temp_path $servers_dir/body;
    proxy_temp_path $servers_dir/proxy;
    fastcgi_temp_path $servers_dir/fastcgi;
    uwsgi_temp_path $servers_dir/uwsgi;
    scgi_temp_path $servers_dir/scgi;
    ssl_certificate $servers_dir/tls/server.pem;
    ssl_certificate_key $servers_dir/tls/server.key;
    server { listen 127.0.0.1:$http backlog=4096; include $servers_dir/locations.conf; }
    server { listen 127.0.0.1:$https $tls_listen; $http2_on include $servers_dir/locations.conf; }
    server { listen 127.0.0.1:$h2c$plain_listen; $http2_on include $servers_dir/locations.conf; }
    # Sends GOAWAY after every third request of an HTTP/2 connection.
    server { listen 127.0.0.1:$goaway $tls_listen; $http2_on keepalive_requests 3; include $servers_dir/locations.conf; }
    # HTTP/1.1 over TLS. Each connection is closed after its first request.
    server {
        listen 127.0.0.1:$once ssl backlog=4096;
        ssl_protocols TLSv1.2 TLSv1.3;
        keepalive_timeout 0;
        include $servers_dir/locations.conf;
    }
    server { listen 127.0.0.1:$sink; location / { return 200 \$http_x_received_length; } }
}
NGINX
}

# Starts nginx and exports LAT_TEST_NGINX_HTTP, _HTTPS, _H2C, _GOAWAY, _ONCE, _TRANSFERS and LAT_TEST_CA.
servers_start_nginx() {
    local attempt pid
    servers_make_files
    servers_make_certificates
    # Another process may take a free port before nginx does, so this tries again with other ports.
    for attempt in 1 2 3; do
        servers_free_ports 6
        servers_write_nginx_configuration
        servers_spawn "$servers_dir/nginx.out" nginx -e "$servers_dir/nginx.log" -p "$servers_dir" -c "$servers_dir/nginx.conf"
        pid="${servers_pids[-1]}"
        if servers_await "http://127.0.0.1:${servers_ports[0]}/1k.bin" "$pid"; then
            export LAT_TEST_NGINX_HTTP="http://127.0.0.1:${servers_ports[0]}"
            export LAT_TEST_NGINX_HTTPS="https://localhost:${servers_ports[1]}"
            export LAT_TEST_NGINX_H2C="http://127.0.0.1:${servers_ports[2]}"
            export LAT_TEST_NGINX_GOAWAY="https://localhost:${servers_ports[3]}"
            export LAT_TEST_NGINX_ONCE="https://localhost:${servers_ports[5]}"
            export LAT_TEST_NGINX_TRANSFERS="$servers_dir/transfers.log"
            export LAT_TEST_CA="$servers_dir/tls/ca.pem"
            return 0
        fi
        kill -TERM "$pid" 2>/dev/null || true
    done
    cat "$servers_dir/nginx.out" "$servers_dir/nginx.log" >&2 || true
    fail "nginx did not start in $attempt attempts; its log is above."
}

# Starts a WSGI application from .venv under gunicorn, waits until it responds at a path, and sets servers_address. $1 is the
# name for messages, $2 the path; the rest are arguments for gunicorn.
servers_start_gunicorn() {
    local name="$1" path="$2" log="$servers_dir/$1.log" pid port="" tries
    shift 2
    # gunicorn chooses the port and logs it.
    servers_spawn "$log" env PYTHONWARNINGS=ignore PYTHONDONTWRITEBYTECODE=1 TMPDIR="$servers_dir" "$root/.venv/bin/python" -m gunicorn \
        --bind 127.0.0.1:0 --worker-class gthread --timeout 120 --graceful-timeout 1 --log-level info "$@"
    pid="${servers_pids[-1]}"
    for ((tries = 0; tries < 600; tries++)); do
        port="$(sed -n 's/.*Listening at: http:\/\/127\.0\.0\.1:\([0-9][0-9]*\).*/\1/p' "$log" | head -n 1)"
        [[ -n "$port" ]] && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    if [[ -z "$port" ]] || ! servers_await "http://127.0.0.1:$port$path" "$pid"; then
        cat "$log" >&2
        fail "$name did not start; its log is above. 'rm -rf .venv' makes the next run install it afresh."
    fi
    servers_address="http://127.0.0.1:$port"
}

# Starts httpbin and exports LAT_TEST_HTTPBIN. It has two processes of 128 threads, because a slow endpoint such as /delay
# blocks a thread.
servers_start_httpbin() {
    servers_start_gunicorn httpbin /get --workers 2 --threads 128 --backlog 2048 --keep-alive 60 httpbin:app
    export LAT_TEST_HTTPBIN="$servers_address"
}

# Starts forms.py, with independent parsers of multipart bodies, and exports LAT_TEST_FORMS.
servers_start_forms() {
    servers_start_gunicorn forms / --workers 1 --threads 8 --pythonpath "$root/scripts/lib" forms:app
    export LAT_TEST_FORMS="$servers_address"
}
