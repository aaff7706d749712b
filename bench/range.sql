\set aid random(1, 100000 * :scale)
SELECT count(*) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 1000;
