//! The capability against a server that answers by script: what goes out, how each kind of trouble is told,
//! and that nothing is repeated.

#[cfg(test)]
mod script;

#[cfg(test)]
mod wire {
    use std::{path::PathBuf, time::Duration};

    use egress_capabilities::{HomeCluster, KubernetesCapability};
    use egress_runtime::capability::{
        Access, DeleteOptions, Kubernetes, KubernetesFailure, KubernetesFailureKind as Kind, ListOptions,
        PatchKind, Resource,
    };
    use serde_json::{Value, json};
    use tempfile::TempDir;

    use crate::script::{Act, Seen, Server};

    const TOKEN: &str = "sentinel-token-7f3a";

    /// A kubeconfig in a folder of its own.
    struct Files(TempDir);

    impl Files {
        fn new(server: &str, user: &str) -> Self {
            let files = Self(tempfile::tempdir().unwrap());
            files.write("config", &kubeconfig(server, user));
            files
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// As the kubelet does it: aside, then renamed.
        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.path("aside"), text).unwrap();
            std::fs::rename(self.path("aside"), self.path(name)).unwrap();
        }

        fn grant(&self) -> Value {
            json!({
                "kubeconfig": { "file": self.path("config") },
                "rules": [{ "apiGroups": ["", "apps"], "resources": ["pods", "pods/eviction", "secrets", "deployments"],
                            "verbs": ["*"], "namespaces": ["a"] }],
                // Enough for a busy machine; where a deadline is to pass, the test shortens it.
                "timeouts": { "connectMs": 20_000, "requestMs": 60_000 },
            })
        }

        fn lend(&self) -> KubernetesCapability {
            lend(self.grant(), None)
        }
    }

    fn kubeconfig(server: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters:\n- name: x\n  cluster: {{ server: {server:?} }}\n\
             users:\n- name: x\n  user: {user}\ncontexts:\n- name: x\n  context: {{ cluster: x, user: x }}\n"
        )
    }

    fn token(token: &str) -> String {
        format!("{{ token: {token} }}")
    }

    fn lend(grant: Value, home: Option<HomeCluster>) -> KubernetesCapability {
        let grant = serde_json::from_value(json!({ "clusters": { "c": grant } })).unwrap();
        KubernetesCapability::new(&"entry".parse().unwrap(), grant, home).unwrap()
    }

    fn pods() -> Resource {
        Resource { api_version: "v1".into(), plural: "pods".into() }
    }

    async fn get(lent: &KubernetesCapability) -> Result<Value, KubernetesFailure> {
        lent.get("c", &pods(), "a", "x").await
    }

    async fn seen_of_one(act: Act) -> (Result<Value, KubernetesFailure>, Vec<Seen>) {
        let server = Server::start([act]).await;
        let files = Files::new(&server.url, &token(TOKEN));
        let result = get(&files.lend()).await;
        (result, server.seen())
    }

    #[tokio::test]
    async fn a_request_goes_out_as_the_grant_says() {
        let server = Server::start(vec![Act::json(200, json!({ "kind": "Pod" })); 7]).await;
        let files = Files::new(&server.url, &token(TOKEN));
        let mut grant = files.grant();
        grant["serviceAccount"] = json!({ "namespace": "a", "name": "squid" });
        let lent = lend(grant, None);
        let deployments = Resource { api_version: "apps/v1".into(), plural: "deployments".into() };
        let body = json!({ "metadata": { "name": "x" } });

        assert_eq!(get(&lent).await.unwrap(), json!({ "kind": "Pod" }));
        let options = ListOptions {
            label_selector: "egress=a&b,c in (d)".into(),
            field_selector: String::new(),
            limit: 7,
            continue_token: Some("a+/=".into()),
        };
        lent.list("c", &deployments, "a", &options).await.unwrap();
        lent.create("c", &pods(), "a", body.clone()).await.unwrap();
        let eviction = Resource { api_version: "v1".into(), plural: "pods/eviction".into() };
        lent.create("c", &eviction, "a", body.clone()).await.unwrap();
        lent.patch("c", &pods(), "a", "x", PatchKind::Apply, body.clone()).await.unwrap();
        lent.patch("c", &pods(), "a", "x", PatchKind::Merge, body).await.unwrap();
        let options = DeleteOptions {
            uid: Some("u".into()),
            resource_version: Some("5".into()),
            grace_seconds: Some(0),
        };
        lent.delete("c", &pods(), "a", "x", &options).await.unwrap();

        let seen = server.seen();
        let lines: Vec<&str> = seen.iter().map(|seen| seen.line.as_str()).collect();
        assert_eq!(
            lines,
            [
                "GET /api/v1/namespaces/a/pods/x",
                "GET /apis/apps/v1/namespaces/a/deployments\
                 ?labelSelector=egress%3Da%26b%2Cc%20in%20%28d%29&limit=7&continue=a%2B%2F%3D",
                "POST /api/v1/namespaces/a/pods?fieldManager=egress-proxies-operator.entry",
                "POST /api/v1/namespaces/a/pods/x/eviction?fieldManager=egress-proxies-operator.entry",
                "PATCH /api/v1/namespaces/a/pods/x?fieldManager=egress-proxies-operator.entry&force=true",
                "PATCH /api/v1/namespaces/a/pods/x?fieldManager=egress-proxies-operator.entry",
                "DELETE /api/v1/namespaces/a/pods/x",
            ]
        );
        for request in &seen {
            assert_eq!(request.header("authorization"), Some(&*format!("Bearer {TOKEN}")));
            assert_eq!(request.header("impersonate-user"), Some("system:serviceaccount:a:squid"));
            assert_eq!(request.header("user-agent"), Some("egress-proxies-operator (entry)"));
        }
        let types: Vec<_> = seen.iter().filter_map(|seen| seen.header("content-type")).collect();
        let (json, merge) = ("application/json", "application/merge-patch+json");
        assert_eq!(types, [json, json, "application/apply-patch+yaml", merge, json]);
        assert_eq!(
            seen[6].body,
            json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
                    "gracePeriodSeconds": 0, "preconditions": { "uid": "u", "resourceVersion": "5" } })
        );
    }

    #[tokio::test]
    async fn what_the_grant_does_not_list_never_leaves_the_host() {
        let server = Server::start([]).await;
        let files = Files::new(&server.url, &token(TOKEN));
        let lent = files.lend();
        let body = json!({});
        let nodes = Resource { api_version: "v1".into(), plural: "nodes".into() };
        let access = Access { verb: "watch".into(), resource: nodes.clone(), namespace: String::new() };
        let kinds = [
            lent.get("c", &pods(), "b", "x").await.unwrap_err().kind,
            lent.list("c", &pods(), "", &ListOptions::default()).await.unwrap_err().kind,
            lent.create("c", &nodes, "", body.clone()).await.unwrap_err().kind,
            lent.patch("c", &pods(), "b", "x", PatchKind::Apply, body).await.unwrap_err().kind,
            lent.delete("c", &nodes, "", "x", &DeleteOptions::default()).await.unwrap_err().kind,
            lent.allowed("c", &access).await.unwrap_err().kind,
            lent.about("elsewhere").await.unwrap_err().kind,
        ];
        assert_eq!(kinds, [Kind::Denied; 7]);
        assert_eq!(server.connections(), 0);
    }

    #[tokio::test]
    async fn a_refusal_of_the_server_comes_back_as_it_was_and_is_not_repeated() {
        for (code, reason) in [
            (403, "Forbidden"),
            (409, "AlreadyExists"),
            (429, "TooManyRequests"),
            (503, ""),
            (504, "Timeout"),
        ] {
            let status = json!({ "kind": "Status", "code": code, "reason": reason, "message": "no", "details": { "kind": "pods" } });
            let (result, seen) = seen_of_one(Act::json(code, status).with("Retry-After: 3")).await;
            let failure = result.unwrap_err();
            assert_eq!((failure.kind, failure.code, failure.reason.as_str()), (Kind::Status, code, reason));
            assert_eq!((failure.message.as_str(), &failure.details), ("no", &json!({ "kind": "pods" })));
            assert_eq!((failure.retry_after, failure.sent), (Some(Duration::from_secs(3)), true));
            assert_eq!(seen.len(), 1, "{code}");
        }
    }

    #[tokio::test]
    async fn a_broken_connection_is_told_and_not_repeated() {
        for act in [Act::Close, Act::Raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"kind\"".into())] {
            let (result, seen) = seen_of_one(act).await;
            let failure = result.unwrap_err();
            assert_eq!((failure.kind, failure.sent), (Kind::Cut, true), "{failure:?}");
            assert_eq!(seen.len(), 1);
        }
        let (result, _) =
            seen_of_one(Act::Raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<htm>".into())).await;
        assert_eq!(result.unwrap_err().kind, Kind::Cut);
    }

    #[tokio::test]
    async fn a_silent_server_ends_with_the_deadline() {
        let server = Server::start([
            Act::Silent,
            Act::Raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".into()).then_silent(),
        ])
        .await;
        let files = Files::new(&server.url, &token(TOKEN));
        let mut grant = files.grant();
        grant["timeouts"] = json!({ "connectMs": 200, "requestMs": 300 });
        let lent = lend(grant, None);
        for _ in 0..2 {
            let failure = get(&lent).await.unwrap_err();
            assert_eq!((failure.kind, failure.sent), (Kind::Timeout, true), "{failure:?}");
            assert!(failure.message.contains("300 ms (requestMs"), "{}", failure.message);
        }
    }

    #[tokio::test]
    async fn what_never_connected_was_not_sent() {
        let gone = Server::start([]).await.url.clone(); // dropped: nobody listens any more
        let silent = Server::start([Act::Silent]).await;
        let plain = Server::start([Act::Raw("HTTP/1.1 400 Bad Request\r\n\r\n".into())]).await;
        let tls = |server: &Server| server.url.replace("http:", "https:");
        for (url, kind) in [
            (gone, Kind::Connect),
            ("http://no-such-host.invalid".into(), Kind::Name),
            (tls(&silent), Kind::Connect),
            (tls(&plain), Kind::Tls),
        ] {
            let files = Files::new(&url, &token(TOKEN));
            let mut grant = files.grant();
            if kind == Kind::Connect {
                grant["timeouts"]["connectMs"] = json!(300);
            }
            let failure = get(&lend(grant, None)).await.unwrap_err();
            assert_eq!((failure.kind, failure.sent), (kind, false), "{url}: {failure:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_is_bounded_while_it_is_read() {
        let declared =
            Act::Raw(format!("HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n{}", "x".repeat(2000)));
        let error = Act::Raw("HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n".into()).then_flood();
        let server = Server::start([
            declared,
            Act::Raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".into()).then_flood(),
            error,
        ])
        .await;
        let files = Files::new(&server.url, &token(TOKEN));
        let lent = files.lend().with_limits(1000, 1000);
        for _ in 0..3 {
            let failure = get(&lent).await.unwrap_err();
            assert_eq!((failure.kind, failure.sent), (Kind::TooLarge, true), "{failure:?}");
            assert!(
                failure.message.contains("limits.responseBytes (1000) of entry entry"),
                "{}",
                failure.message
            );
        }
    }

    #[tokio::test]
    async fn a_request_that_is_too_large_is_not_sent() {
        let server = Server::start([]).await;
        let files = Files::new(&server.url, &token(TOKEN));
        let lent = files.lend().with_limits(100, 1000);
        let failure = lent.create("c", &pods(), "a", json!({ "x": "y".repeat(100) })).await.unwrap_err();
        assert_eq!((failure.kind, failure.sent), (Kind::TooLarge, false));
        assert!(failure.message.contains("limits.requestBytes (100) of entry entry"), "{}", failure.message);
        assert_eq!(server.connections(), 0);
    }

    #[tokio::test]
    async fn a_rotated_token_takes_effect_with_the_next_call() {
        let server = Server::start(vec![Act::json(200, json!({})); 4]).await;
        let files = Files::new(&server.url, &token("first"));
        let lent = files.lend();
        get(&lent).await.unwrap();
        files.write("config", &kubeconfig(&server.url, &token("other")));
        get(&lent).await.unwrap();
        files.write("token", "third");
        files.write("config", &kubeconfig(&server.url, "{ tokenFile: token }"));
        get(&lent).await.unwrap();
        files.write("token", "forth");
        get(&lent).await.unwrap();
        let tokens: Vec<_> =
            server.seen().iter().map(|s| s.header("authorization").unwrap().to_owned()).collect();
        assert_eq!(tokens, ["Bearer first", "Bearer other", "Bearer third", "Bearer forth"]);
    }

    #[tokio::test]
    async fn after_a_401_the_credentials_are_asked_for_again() {
        let unauthorized = json!({ "kind": "Status", "code": 401, "reason": "Unauthorized" });
        let server = Server::start([Act::json(401, unauthorized), Act::json(200, json!({}))]).await;
        let files = Files::new("", "");
        let helper = |token: &str| {
            files.write("helper", &format!(
                "#!/bin/sh\necho '{{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\
                 \"status\":{{\"token\":\"{token}\"}}}}'\n"
            ));
            make_executable(&files.path("helper"));
        };
        let user = "{ exec: { apiVersion: client.authentication.k8s.io/v1, command: ./helper, interactiveMode: Never } }";
        files.write("config", &kubeconfig(&server.url, user));
        let lent = files.lend();
        helper("old");
        assert_eq!(get(&lent).await.unwrap_err().code, 401);
        helper("new");
        get(&lent).await.unwrap();
        let tokens: Vec<_> =
            server.seen().iter().map(|s| s.header("authorization").unwrap().to_owned()).collect();
        assert_eq!(tokens, ["Bearer old", "Bearer new"]);
    }

    fn make_executable(path: &std::path::Path) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[tokio::test]
    async fn bad_credentials_are_told_without_quoting_them() {
        let files = Files::new("http://127.0.0.1:1", &token(TOKEN));
        let failing = format!("#!/bin/sh\necho {TOKEN}; echo {TOKEN} >&2; exit 3\n");
        let chatty = format!("#!/bin/sh\necho {TOKEN}\n");
        files.write("broken", &format!("{TOKEN}\n"));
        for (name, text) in [("failing", failing), ("chatty", chatty)] {
            files.write(name, &text);
            make_executable(&files.path(name));
        }
        let exec = |name: &str| {
            format!(
                "{{ exec: {{ apiVersion: client.authentication.k8s.io/v1, command: ./{name}, interactiveMode: Never }} }}"
            )
        };
        let config = |user: &str| kubeconfig("http://127.0.0.1:1", user);
        for (text, hint) in [
            (format!("token: [{TOKEN}: {TOKEN}: \"{TOKEN}"), "not a valid kubeconfig"),
            (format!("users: {TOKEN}"), "not a valid kubeconfig"),
            (config(&exec("failing")), "failing failed with exit status: 3"),
            (config(&exec("chatty")), "not an ExecCredential"),
            (config(&exec("missing")), "can't be run"),
            (config("{ tokenFile: missing }"), "failed to read token file"),
            (config(&format!("{{ token: \"{TOKEN}\\n\" }}")), "line break"),
            (config("{ tokenFile: broken }"), "line break"),
            (config(&token(TOKEN)).replace("current-context: x", "current-context: y"), "current context"),
            (config(&token(TOKEN)).replace("{ server", "{ proxy-url: \"http://p\", server"), "proxy-url"),
        ] {
            files.write("config", &text);
            let failure = get(&files.lend()).await.unwrap_err();
            assert_eq!((failure.kind, failure.sent), (Kind::Credentials, false), "{failure:?}");
            assert!(failure.message.contains(hint), "{hint}: {}", failure.message);
            assert!(!failure.message.contains(TOKEN), "{}", failure.message);
        }
        let missing =
            lend(json!({ "kubeconfig": { "file": "/nowhere" }, "rules": files.grant()["rules"] }), None);
        assert_eq!(get(&missing).await.unwrap_err().kind, Kind::Credentials);
    }

    #[tokio::test]
    async fn home_is_the_cluster_with_the_uid_of_home_and_is_asked_once() {
        let version = Act::json(200, json!({ "gitVersion": "v1.36.3" }));
        let system = Act::json(200, json!({ "metadata": { "uid": "home-uid" } }));
        let user = Act::json(201, json!({ "status": { "userInfo": { "username": "squid" } } }));
        let home = |uid: &str| HomeCluster {
            config: kube::Config::new("http://elsewhere".parse().unwrap()),
            uid: uid.to_owned(),
        };
        for (uid, expected) in [("home-uid", true), ("another", false)] {
            let server =
                Server::start([version.clone(), system.clone(), user.clone(), version.clone()]).await;
            let files = Files::new(&server.url, &token(TOKEN));
            let lent = lend(files.grant(), Some(home(uid)));
            for _ in 0..2 {
                let about = lent.about("c").await.unwrap();
                assert_eq!(
                    (about.version.as_str(), about.home, about.user.as_str()),
                    ("v1.36.3", expected, "squid")
                );
            }
            assert_eq!(server.seen().len(), 4);
        }
    }

    #[tokio::test]
    async fn home_is_known_without_rights_only_by_address_and_trust() {
        let refused =
            |code| Act::json(code, json!({ "kind": "Status", "code": code, "reason": "Forbidden" }));
        let version = Act::json(200, json!({ "gitVersion": "v1.36.3" }));
        let server = Server::start([
            version.clone(),
            refused(403),
            refused(403),
            version.clone(),
            refused(404),
            version,
            refused(403),
        ])
        .await;
        let files = Files::new(&server.url, &token(TOKEN));
        let home = |url: &str| {
            Some(HomeCluster { config: kube::Config::new(url.parse().unwrap()), uid: "u".into() })
        };
        let about = lend(files.grant(), home("http://elsewhere")).about("c").await.unwrap();
        assert_eq!((about.home, about.user.as_str()), (false, ""));
        let about = lend(files.grant(), home(&server.url)).about("c").await.unwrap();
        assert!(about.home);
        let grant = json!({ "operator": true, "rules": files.grant()["rules"] });
        assert!(lend(grant, home(&server.url)).about("c").await.unwrap().home);
    }

    #[tokio::test]
    async fn a_grant_on_the_operators_cluster_needs_one() {
        let grant = json!({ "clusters": { "c": { "operator": true, "rules": Files::new("", "").grant()["rules"] } } });
        let grant = serde_json::from_value(grant).unwrap();
        let faults = KubernetesCapability::new(&"entry".parse().unwrap(), grant, None).err().unwrap();
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].path, "clusters.c.operator");
    }

    #[tokio::test]
    async fn a_right_is_asked_as_the_identity_itself() {
        let answer = |allowed| Act::json(201, json!({ "status": { "allowed": allowed } }));
        let server = Server::start([answer(true), answer(false)]).await;
        let files = Files::new(&server.url, &token(TOKEN));
        let lent = files.lend();
        let access = Access { verb: "create".into(), resource: pods(), namespace: "a".into() };
        assert!(lent.allowed("c", &access).await.unwrap());
        assert!(!lent.allowed("c", &access).await.unwrap());
        assert_eq!(
            server.seen()[0].body["spec"]["resourceAttributes"],
            json!({ "verb": "create", "group": "", "version": "v1", "resource": "pods", "subresource": "", "namespace": "a" })
        );
    }

    #[tokio::test]
    async fn no_token_and_no_body_is_logged_at_any_level() {
        let log = crate::script::Log::default();
        let subscriber =
            tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone());
        let guard = tracing::subscriber::set_default(subscriber.finish());
        tracing::trace!("the log is on");
        let secret = json!({ "stringData": { "user-data": "sentinel-user-data" } });
        let server = Server::start([
            Act::json(200, secret.clone()),
            Act::json(422, json!({ "kind": "Status", "message": "quotes sentinel-user-data" })),
            Act::json(500, json!({ "kind": "Status", "message": "quotes sentinel-user-data" })),
            Act::Raw("HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\nsentinel-user-data".into()),
            Act::Close,
        ])
        .await;
        let files = Files::new(&server.url, &token(TOKEN));
        let lent = files.lend();
        let secrets = Resource { api_version: "v1".into(), plural: "secrets".into() };
        let mut told = String::new();
        for _ in 0..5 {
            let result = lent.create("c", &secrets, "a", secret.clone()).await;
            told += &result.err().map(|failure| format!("{failure:?}\n")).unwrap_or_default();
        }
        drop(guard);
        let text = log.text() + &told;
        assert!(text.contains("the log is on") && told.lines().count() == 4, "{text}");
        assert!(!text.contains("sentinel"), "{text}");
    }
}
