//! How many connections there may be, and who waits for one.
use contract::CallError;

use super::*;

fn slow(wait: Duration) -> Backend {
    backend(move |mut wire, _| async move {
        while wire.head().await.is_some() {
            tokio::time::sleep(wait).await;
            wire.ok("ok").await;
        }
    })
}

#[test]
fn calls_beyond_the_limit_wait_in_turn_and_share_the_connections() {
    run(|| async {
        let backend = slow(Duration::from_millis(10));
        let mut bench = Bench::of(backend.address, Limits { max_connections: 2, ..Limits::default() });
        bench.timeouts.connect = Duration::from_secs(20);
        let bench = Rc::new(bench);
        let order = Rc::new(RefCell::new(Vec::new()));
        let tasks: Vec<_> = (0..20)
            .map(|at| {
                let (bench, order) = (bench.clone(), order.clone());
                tokio::task::spawn_local(async move {
                    assert_eq!(bench.text().await, "ok");
                    order.borrow_mut().push(at);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!((bench.permits.waiting(), bench.permits.in_flight()), (18, 20));
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(backend.accepted.get(), 2, "a waiting call takes over a connection of its thread");
        assert_eq!((bench.permits.open(), bench.permits.waiting(), bench.permits.in_flight()), (2, 0, 0));
        let order = order.borrow();
        assert!(order.iter().enumerate().all(|(turn, at): (usize, &usize)| turn.abs_diff(*at) <= 1), "{order:?}");
    });
}

#[test]
fn waiting_for_a_connection_has_an_end() {
    run_paused(|| async {
        let backend = slow(Duration::from_secs(10));
        let bench = Bench::of(backend.address, Limits { max_connections: 1, ..Limits::default() });
        let (first, second) = tokio::join!(bench.get(), bench.get());
        assert!(first.is_ok());
        let failure = second.unwrap_err();
        assert_eq!((failure.error, failure.reason, failure.sent), (CallError::ConnectTimeout, "upstream_connections_exhausted", false));
        assert_eq!((bench.permits.waiting(), bench.permits.in_flight()), (0, 0));
    });
}

#[test]
fn calls_that_are_dropped_anywhere_leave_no_permit_taken() {
    let mut seed = 0xdead_beef_cafe_f00du64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    run(|| async move {
        let turn = Cell::new(0u64);
        let backend = backend(move |mut wire, _| {
            let turn = turn.replace(turn.get() + 1);
            async move {
                while wire.head().await.is_some() {
                    match turn % 5 {
                        0 => wire.ok("ok").await,
                        1 => tokio::time::sleep(Duration::from_millis(1)).await,
                        2 => wire.write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nab").await,
                        3 => wire.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n").await,
                        _ => return,
                    }
                }
            }
        });
        let bench = Rc::new(Bench::of(backend.address, Limits { max_connections: 3, max_idle: 2, ..Limits::default() }));
        let mut tasks = Vec::new();
        for _ in 0..1000 {
            let (bench, polls, lives) = (bench.clone(), random(40), random(3) == 0);
            let task = tokio::task::spawn_local(async move {
                let call = async {
                    if let Ok(response) = bench.call(Method::POST, "hello").await {
                        let mut body = response.into_body();
                        while let Some(Ok(_)) = body.frame().await {}
                    }
                };
                // Dropped after so many turns of the runtime, wherever it stands.
                tokio::select! {
                    biased;
                    () = async { for _ in 0..polls { tokio::task::yield_now().await } if lives { tokio::time::sleep(Duration::from_millis(2)).await } } => {}
                    () = call => {}
                }
            });
            tasks.push(task);
            if random(4) == 0 {
                tokio::task::yield_now().await;
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!((bench.permits.in_flight(), bench.permits.waiting()), (0, 0));
        assert_eq!(bench.permits.open(), bench.pool.idle());
        bench.pool.set_addresses(vec![]);
        assert_eq!((bench.permits.open(), bench.pool.idle()), (0, 0));
    });
}

#[test]
fn a_dropped_waiter_passes_its_turn_on() {
    run(|| async {
        let backend = slow(Duration::from_millis(50));
        let mut bench = Bench::of(backend.address, Limits { max_connections: 1, ..Limits::default() });
        bench.timeouts.connect = Duration::from_secs(5);
        let bench = Rc::new(bench);
        let spawn = || {
            let bench = bench.clone();
            tokio::task::spawn_local(async move { bench.text().await })
        };
        let (first, second, third) = (spawn(), spawn(), spawn());
        tokio::task::yield_now().await;
        assert_eq!(bench.permits.waiting(), 2);
        second.abort();
        assert_eq!(first.await.unwrap(), "ok");
        assert_eq!(third.await.unwrap(), "ok");
        assert!(second.await.is_err());
        assert_eq!((bench.permits.open(), bench.permits.waiting()), (1, 0));
    });
}

/// Runs `work` on a thread with a runtime of its own.
fn thread<F: Future>(work: impl FnOnce() -> F + Send + 'static) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        run(work);
    })
}

#[test]
fn another_threads_idle_connection_is_closed_for_a_call_that_waits() {
    let (address, hear) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = thread(move || async move {
        let backend = slow(Duration::ZERO);
        address.send(backend.address).unwrap();
        let _ = stopped.await;
    });
    let address = hear.recv().unwrap();
    let permits = Permits::new(Limits { max_connections: 1, max_idle: 8, ..Limits::default() }, 2);
    let (idle, is_idle) = std::sync::mpsc::channel();
    let (done, is_done) = tokio::sync::oneshot::channel::<()>();
    let of_other = permits.clone();
    let other = thread(move || async move {
        let bench = Bench::sharing(of_other, address);
        assert_eq!(bench.text().await, "ok");
        assert_eq!(bench.pool.idle(), 1);
        idle.send(()).unwrap();
        is_done.await.unwrap();
        assert_eq!(bench.pool.idle(), 0, "it was asked to close its connection");
    });
    is_idle.recv().unwrap();
    let of_mine = permits.clone();
    run(|| async move {
        let bench = Bench::sharing(of_mine, address);
        let start = Instant::now();
        assert_eq!(bench.text().await, "ok");
        assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
        done.send(()).unwrap();
    });
    other.join().unwrap();
    assert_eq!(permits.open(), 0);
    let _ = stop.send(());
    server.join().unwrap();
}

#[test]
fn threads_that_fight_for_few_connections_are_all_served() {
    let (address, hear) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = thread(move || async move {
        let backend = slow(Duration::ZERO);
        address.send(backend.address).unwrap();
        let _ = stopped.await;
    });
    let address = hear.recv().unwrap();
    let permits = Permits::new(Limits { max_connections: 2, max_idle: 8, ..Limits::default() }, 3);
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let permits = permits.clone();
            thread(move || async move {
                let mut bench = Bench::sharing(permits, address);
                bench.timeouts.connect = Duration::from_secs(20);
                let bench = Rc::new(bench);
                let tasks: Vec<_> = (0..8)
                    .map(|_| {
                        let bench = bench.clone();
                        tokio::task::spawn_local(async move {
                            for _ in 0..50 {
                                assert_eq!(bench.text().await, "ok");
                                assert!(bench.permits.open() <= 2);
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!((permits.open(), permits.waiting(), permits.in_flight()), (0, 0, 0));
    let _ = stop.send(());
    server.join().unwrap();
}
