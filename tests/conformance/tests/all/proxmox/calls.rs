//! How much each operation asks, and that the page says so.

use std::time::Duration;

use super::bench::{Bench, block, config};

/// What the page's table says of an operation.
fn documented(operation: &str) -> usize {
    let page = include_str!("../../../../../docs/providers/proxmox.md");
    let row = page.lines().find(|line| line.starts_with(&format!("| {operation} | "))).unwrap();
    let cell = row.split(" | ").nth(1).unwrap();
    cell.split([':', ',']).next().unwrap().trim().parse().unwrap()
}

fn is(operation: &str, asked: &[String]) {
    assert_eq!(asked.len(), documented(operation), "{operation}: {asked:#?}");
}

#[test]
fn each_operation_asks_no_more_than_the_page_says() {
    block(async {
        let mut bench = Bench::new(config()).await;
        // Each task has ended when it is asked about.
        loop {
            if let egress_contract::Created::Done(_) = bench.step().await.unwrap() {
                break;
            }
            bench.stage.wait(Duration::from_secs(5)).await;
        }
        is("create", &bench.asked_since(0));
        bench.booted().await;
        let before = bench.last();
        assert_eq!(bench.get().await.unwrap().addresses.len(), 1);
        is("get of one that runs", &bench.asked_since(before));
        let before = bench.last();
        assert_eq!(bench.host.list_place("pve1").await.unwrap().unwrap().items.len(), 1);
        // One machine beside the four.
        assert_eq!(bench.asked_since(before).len(), documented("list") + 1);
        let before = bench.last();
        assert!(bench.host.check("pve1").await.unwrap().answer.unwrap().ready);
        is("check", &bench.asked_since(before));
        let before = bench.last();
        loop {
            let answer = bench.host.delete_step(&mut bench.proxy).await.unwrap().answer;
            if answer.unwrap() == egress_contract::Deleted::Done {
                break;
            }
            bench.stage.wait(Duration::from_secs(5)).await;
        }
        is("delete", &bench.asked_since(before));
    });
}
