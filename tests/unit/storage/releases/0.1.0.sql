BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0024');
CREATE TABLE audit (
	id INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	username VARCHAR(256) NOT NULL, 
	uid BIGINT NOT NULL, 
	door VARCHAR(16) NOT NULL, 
	action VARCHAR(32) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	name VARCHAR(256) NOT NULL, 
	detail TEXT NOT NULL, 
	problem TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE deliveries (
	id INTEGER NOT NULL, 
	job VARCHAR(64) NOT NULL, 
	target JSON NOT NULL, 
	phase VARCHAR(16) NOT NULL, 
	message TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	num_attempts INTEGER NOT NULL, 
	due_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE TABLE driver_specs (
	job VARCHAR(64) NOT NULL, 
	spec TEXT NOT NULL, 
	PRIMARY KEY (job), 
	FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
INSERT INTO "driver_specs" VALUES('wsjob-b','{"argv": ["train", "--x"], "commit": "", "environment": {"A": "b"}, "is_dirty": null, "num_systems": 0, "restart": {"limit": 0, "on": []}, "time_limit_seconds": 0.0, "work_dir": "/home/ada"}');
CREATE TABLE events (
	id INTEGER NOT NULL, 
	job VARCHAR(64) NOT NULL, 
	at DATETIME NOT NULL, 
	reason VARCHAR(64) NOT NULL, 
	message TEXT NOT NULL, 
	subject VARCHAR(96) NOT NULL, 
	is_warning BOOLEAN NOT NULL, 
	phase VARCHAR(16), 
	PRIMARY KEY (id), 
	FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
INSERT INTO "events" VALUES(1,'wsjob-a','2024-05-01 00:00:00.000000','JobCreated','','wsjob-a',0,'CREATED');
INSERT INTO "events" VALUES(2,'wsjob-a','2024-05-01 00:00:00.000000','JobQueued','','wsjob-a',0,'QUEUED');
INSERT INTO "events" VALUES(3,'wsjob-b','2024-05-01 00:00:00.000000','JobCreated','','wsjob-b',0,'CREATED');
INSERT INTO "events" VALUES(4,'wsjob-b','2024-05-01 00:00:00.000000','JobQueued','','wsjob-b',0,'QUEUED');
INSERT INTO "events" VALUES(5,'wsjob-a','2024-05-01 00:00:00.000000','JobScheduled','','wsjob-a',0,'SCHEDULED');
INSERT INTO "events" VALUES(6,'wsjob-a','2024-05-01 00:00:00.000000','JobInitializing','','wsjob-a',0,'INITIALIZING');
INSERT INTO "events" VALUES(7,'wsjob-a','2024-05-01 00:00:00.000000','JobRunning','','wsjob-a',0,'RUNNING');
INSERT INTO "events" VALUES(8,'wsjob-a','2024-05-01 00:00:00.000000','JobSucceeded','','wsjob-a',0,'SUCCEEDED');
CREATE TABLE followed_jobs (
	job VARCHAR(64) NOT NULL, 
	targets JSON NOT NULL, 
	seen BIGINT NOT NULL, 
	PRIMARY KEY (job), 
	FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE TABLE grants (
	job VARCHAR(64) NOT NULL, 
	system VARCHAR(64) NOT NULL, 
	position INTEGER NOT NULL, 
	PRIMARY KEY (job, system), 
	FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
INSERT INTO "grants" VALUES('wsjob-a','systemf0',0);
INSERT INTO "grants" VALUES('wsjob-a','systemf1',1);
CREATE TABLE job_requests (
	job VARCHAR(64) NOT NULL, 
	request BLOB NOT NULL, 
	trace TEXT NOT NULL, 
	PRIMARY KEY (job), 
	FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
INSERT INTO "job_requests" VALUES('wsjob-a',X'00FF','00-1-2-01
00-1-1-01');
CREATE TABLE jobs (
	sequence INTEGER NOT NULL, 
	id VARCHAR(64) NOT NULL, 
	type VARCHAR(16) NOT NULL, 
	session VARCHAR(63) NOT NULL, 
	workflow VARCHAR(64) NOT NULL, 
	uid BIGINT NOT NULL, 
	gid BIGINT NOT NULL, 
	username VARCHAR(256) NOT NULL, 
	priority INTEGER NOT NULL, 
	num_systems INTEGER NOT NULL, 
	workers_per_system INTEGER NOT NULL, 
	work_dir TEXT NOT NULL, 
	client_workdir TEXT NOT NULL, 
	service_authority TEXT NOT NULL, 
	service_address TEXT NOT NULL, 
	artifact_dir TEXT NOT NULL, 
	phase VARCHAR(16) NOT NULL, 
	message TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	requirements JSON NOT NULL, 
	holding JSON NOT NULL, 
	verdict JSON, 
	num_starts INTEGER NOT NULL, 
	held_by VARCHAR(256) NOT NULL, 
	request_digest VARCHAR(64) NOT NULL, 
	client_release VARCHAR(32) NOT NULL, 
	array_id VARCHAR(64) NOT NULL, 
	created_at DATETIME NOT NULL, 
	started_at DATETIME, 
	ended_at DATETIME, 
	PRIMARY KEY (sequence), 
	UNIQUE (id)
);
INSERT INTO "jobs" VALUES(1,'wsjob-a','execute','job-operator','wflow-1',1000,100,'ada',299,2,1,'/data/jobs/wsjob-a','','','','','SUCCEEDED','','','{}','{}',NULL,1,'','','','','2024-05-01 00:00:00.000000','2024-05-01 00:00:00.000000','2024-05-01 00:00:00.000000');
INSERT INTO "jobs" VALUES(2,'wsjob-b','driver','job-operator','wflow-2',1000,100,'ada',299,0,1,'/data/jobs/wsjob-b','','','','','QUEUED','','','{}','{}',NULL,0,'','','','','2024-05-01 00:00:00.000000',NULL,NULL);
CREATE TABLE labels (
	job VARCHAR(64) NOT NULL, 
	"key" VARCHAR(63) NOT NULL, 
	value VARCHAR(63) NOT NULL, 
	PRIMARY KEY (job, "key"), 
	FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
INSERT INTO "labels" VALUES('wsjob-a','model','gpt');
INSERT INTO "labels" VALUES('wsjob-b','name','sweep');
CREATE TABLE leases (
	id VARCHAR(64) NOT NULL, 
	seconds INTEGER NOT NULL, 
	holder VARCHAR(256) NOT NULL, 
	expires_at DATETIME NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE maintenance (
	id VARCHAR(64) NOT NULL, 
	system VARCHAR(64) NOT NULL, 
	starts_at DATETIME NOT NULL, 
	ends_at DATETIME NOT NULL, 
	notes TEXT NOT NULL, 
	PRIMARY KEY (id, system)
);
CREATE TABLE node_groups (
	name VARCHAR(64) NOT NULL, 
	position INTEGER NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	is_healthy BOOLEAN NOT NULL, 
	num_nodes INTEGER NOT NULL, 
	num_cores INTEGER NOT NULL, 
	memory_bytes BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE nodes (
	name VARCHAR(64) NOT NULL, 
	position INTEGER NOT NULL, 
	roles JSON NOT NULL, 
	num_cores INTEGER NOT NULL, 
	memory_bytes BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "nodes" VALUES('mgmt',0,'["management"]',8,17179869184);
CREATE TABLE pod_memory (
	kind VARCHAR(24) NOT NULL, 
	memory_bytes BIGINT NOT NULL, 
	PRIMARY KEY (kind)
);
CREATE TABLE pods (
	name VARCHAR(96) NOT NULL, 
	job VARCHAR(64) NOT NULL, 
	role VARCHAR(24) NOT NULL, 
	pod_index INTEGER NOT NULL, 
	node VARCHAR(256) NOT NULL, 
	pid INTEGER NOT NULL, 
	phase VARCHAR(16) NOT NULL, 
	exit_code INTEGER, 
	message TEXT NOT NULL, 
	step BIGINT NOT NULL, 
	resident_bytes BIGINT NOT NULL, 
	readings JSON NOT NULL, 
	ended_at DATETIME, 
	PRIMARY KEY (name), 
	FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE TABLE points (
	id INTEGER NOT NULL, 
	job VARCHAR(64) NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	session INTEGER NOT NULL, 
	step BIGINT NOT NULL, 
	value DOUBLE, 
	at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE TABLE proxy_keys (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE reservations (
	workflow VARCHAR(64) NOT NULL, 
	systems JSON NOT NULL, 
	node_groups JSON NOT NULL, 
	PRIMARY KEY (workflow), 
	FOREIGN KEY(workflow) REFERENCES workflows (id) ON DELETE CASCADE
);
CREATE TABLE run_sessions (
	job VARCHAR(64) NOT NULL, 
	number INTEGER NOT NULL, 
	is_training BOOLEAN NOT NULL, 
	num_steps BIGINT NOT NULL, 
	completed_steps BIGINT NOT NULL, 
	step_seconds DOUBLE NOT NULL, 
	started_at DATETIME NOT NULL, 
	ended_at DATETIME, 
	readings JSON NOT NULL, 
	masked_weights JSON, 
	PRIMARY KEY (job, number), 
	FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE TABLE session_updates (
	id INTEGER NOT NULL, 
	session VARCHAR(63) NOT NULL, 
	at DATETIME NOT NULL, 
	"by" VARCHAR(256) NOT NULL, 
	message TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(session) REFERENCES sessions (name) ON DELETE CASCADE
);
CREATE TABLE sessions (
	name VARCHAR(63) NOT NULL, 
	created_at DATETIME NOT NULL, 
	changed_at DATETIME NOT NULL, 
	version INTEGER NOT NULL, 
	num_systems INTEGER, 
	borrow_limit INTEGER, 
	max_node_groups INTEGER, 
	max_executes INTEGER, 
	max_compiles INTEGER, 
	shares FLOAT NOT NULL, 
	is_paused BOOLEAN NOT NULL, 
	members JSON NOT NULL, 
	properties JSON NOT NULL, 
	labels JSON NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "sessions" VALUES('job-operator','2024-05-01 00:00:00.000000','2024-05-01 00:00:00.000000',1,NULL,NULL,NULL,NULL,NULL,1.0,0,'[]','{}','{}');
CREATE TABLE system_events (
	id INTEGER NOT NULL, 
	system VARCHAR(64) NOT NULL, 
	at DATETIME NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	note TEXT NOT NULL, 
	details JSON NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE systems (
	name VARCHAR(64) NOT NULL, 
	position INTEGER NOT NULL, 
	is_healthy BOOLEAN NOT NULL, 
	notes TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	block VARCHAR(64) NOT NULL, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "systems" VALUES('systemf0',0,1,'','up','',1);
INSERT INTO "systems" VALUES('systemf1',1,1,'','up','',1);
CREATE TABLE tokens (
	id VARCHAR(32) NOT NULL, 
	username VARCHAR(256) NOT NULL, 
	label TEXT NOT NULL, 
	parent VARCHAR(32) NOT NULL, 
	created_at DATETIME NOT NULL, 
	expires_at DATETIME, 
	revoked_at DATETIME, 
	PRIMARY KEY (id), 
	FOREIGN KEY(username) REFERENCES users (name) ON DELETE CASCADE
);
CREATE TABLE users (
	name VARCHAR(256) NOT NULL, 
	uid BIGINT NOT NULL, 
	gid BIGINT NOT NULL, 
	role VARCHAR(16) NOT NULL, 
	sessions JSON NOT NULL, 
	created_at DATETIME NOT NULL, 
	blocked_at DATETIME, 
	PRIMARY KEY (name), 
	UNIQUE (uid)
);
CREATE TABLE workflows (
	id VARCHAR(64) NOT NULL, 
	session VARCHAR(63) NOT NULL, 
	uid BIGINT NOT NULL, 
	gid BIGINT NOT NULL, 
	username VARCHAR(256) NOT NULL, 
	reserves_resources BOOLEAN NOT NULL, 
	is_released BOOLEAN NOT NULL, 
	created_at DATETIME NOT NULL, 
	first_sequence BIGINT, 
	run_name VARCHAR(80) NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "workflows" VALUES('wflow-1','job-operator',1000,100,'ada',0,0,'2024-05-01 00:00:00.000000',1,'');
INSERT INTO "workflows" VALUES('wflow-2','job-operator',1000,100,'ada',0,0,'2024-05-01 00:00:00.000000',2,'sweep');
CREATE TABLE writers (
	id INTEGER NOT NULL, 
	token VARCHAR(64) NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "writers" VALUES(1,'2d934bd8f22707f5ab04e49f2b83ba97');
CREATE INDEX ix_audit_at ON audit (at);
CREATE INDEX ix_audit_name ON audit (name);
CREATE INDEX ix_audit_username ON audit (username);
CREATE INDEX ix_jobs_array_id ON jobs (array_id) WHERE array_id != '';
CREATE INDEX ix_jobs_phase ON jobs (phase);
CREATE INDEX ix_jobs_priority_newest ON jobs (priority, sequence DESC);
CREATE INDEX ix_jobs_request_digest ON jobs (request_digest) WHERE request_digest != '';
CREATE INDEX ix_jobs_session ON jobs (session);
CREATE INDEX ix_jobs_unfinished ON jobs (priority, sequence DESC) WHERE ended_at IS NULL;
CREATE INDEX ix_jobs_unfinished_of_session ON jobs (session, priority, sequence DESC) WHERE ended_at IS NULL;
CREATE INDEX ix_jobs_workflow ON jobs (workflow);
CREATE INDEX ix_leases_expires_at ON leases (expires_at);
CREATE INDEX ix_system_events_at ON system_events (at);
CREATE INDEX ix_system_events_system ON system_events (system);
CREATE INDEX ix_workflows_first_sequence ON workflows (first_sequence);
CREATE INDEX ix_workflows_run_name ON workflows (run_name) WHERE run_name != '';
CREATE INDEX ix_deliveries_due_at ON deliveries (due_at);
CREATE INDEX ix_deliveries_job ON deliveries (job);
CREATE INDEX ix_events_job ON events (job);
CREATE INDEX ix_pods_job ON pods (job);
CREATE INDEX ix_points_job ON points (job);
CREATE INDEX ix_session_updates_session ON session_updates (session);
CREATE INDEX ix_tokens_parent ON tokens (parent);
CREATE INDEX ix_tokens_username ON tokens (username);
COMMIT;
