# Pub/Sub as both services need it: topics, subscriptions, their dead letters and who may use them. The lists
# are made by `bff-consumer events topics --json` and its twin of the staff service; the services create nothing.
#
#   module "bff" {
#     source           = "./deploy/terraform"
#     project          = "example-project"
#     service_accounts = { bff-consumer = "bff-consumer@…", bff-backoffice = "bff-backoffice@…" }
#     publishers       = { bff-backoffice = "bff-backoffice-work@…" }
#     audit_archive    = { project = "example-archive", location = "asia-south1" }
#   }

terraform {
  required_version = ">= 1.5"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 5.0"
    }
  }
}

variable "project" {
  description = "Project of the topics: PUBSUB_PROJECT_ID of both services."
  type        = string
}

variable "service_accounts" {
  description = "E-mail address of the account that each service runs as; a service that is left out is not set up."
  type        = map(string)
}

variable "publishers" {
  description = "E-mail address of the account that publishes a service's events, where another process does: that of deploy/*/work."
  type        = map(string)
  default     = {}
}

variable "audit_archive" {
  description = "Project in which the signed heads of the audit are kept, and where. Whoever administers the database, the lake or this project must have no rights in it. Null keeps none."
  type        = object({ project = string, location = string })
  default     = null
}

variable "create_sources" {
  description = "Whether the topics of other producers are made here. In production each belongs to its producer."
  type        = bool
  default     = false
}

locals {
  services = { for name, account in var.service_accounts : name => jsondecode(file("${path.module}/${name}.json")) }

  topics  = merge([for name, list in local.services : { for topic in list.topics : topic => name }]...)
  sources = toset(flatten([for list in values(local.services) : list.sources]))

  subscriptions = merge([for name, list in local.services : { for s in list.subscriptions : s.name => {
    service             = name
    topic               = s.topic
    ackDeadlineSeconds  = s.ackDeadlineSeconds
    minimumBackoff      = s.minimumBackoff
    maximumBackoff      = s.maximumBackoff
    ordering            = s.enableMessageOrdering
    filter              = try(s.filter, "")
    deadLetterTopic     = try(s.deadLetterTopic, "")
    maxDeliveryAttempts = try(s.maxDeliveryAttempts, 5)
  } }]...)

  # Subscriptions of one topic with different filters may share a dead-letter topic.
  dead_letters = toset([for s in values(local.subscriptions) : s.deadLetterTopic if s.deadLetterTopic != ""])

  # Pub/Sub itself forwards what could not be delivered.
  forwarder = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"
}

data "google_project" "this" {
  project_id = var.project
}

# A subscription that is made, or reset, within a week still gets what was sent before; dead letters have two.
resource "google_pubsub_topic" "own" {
  for_each                   = local.topics
  project                    = var.project
  name                       = each.key
  labels                     = { service = each.value }
  message_retention_duration = contains(local.dead_letters, each.key) ? "1209600s" : "604800s"
}

resource "google_pubsub_topic" "source" {
  for_each = var.create_sources ? local.sources : toset([])
  project  = var.project
  name     = each.key
}

resource "google_pubsub_subscription" "own" {
  for_each                = local.subscriptions
  project                 = var.project
  name                    = each.key
  topic                   = "projects/${var.project}/topics/${each.value.topic}"
  ack_deadline_seconds    = each.value.ackDeadlineSeconds
  enable_message_ordering = each.value.ordering
  filter                  = each.value.filter
  labels                  = { service = each.value.service }

  expiration_policy {
    ttl = "" # never
  }

  retry_policy {
    minimum_backoff = each.value.minimumBackoff
    maximum_backoff = each.value.maximumBackoff
  }

  dynamic "dead_letter_policy" {
    for_each = each.value.deadLetterTopic == "" ? [] : [each.value.deadLetterTopic]
    content {
      dead_letter_topic     = google_pubsub_topic.own[dead_letter_policy.value].id
      max_delivery_attempts = each.value.maxDeliveryAttempts
    }
  }

  depends_on = [google_pubsub_topic.source]
}

# A topic without a subscription forgets what is sent to it: these keep dead letters for two weeks, for a person.
resource "google_pubsub_subscription" "dead_letters" {
  for_each                   = local.dead_letters
  project                    = var.project
  name                       = each.key
  topic                      = google_pubsub_topic.own[each.key].id
  message_retention_duration = "1209600s"

  expiration_policy {
    ttl = ""
  }
}

resource "google_pubsub_topic_iam_member" "forwards" {
  for_each = local.dead_letters
  project  = var.project
  topic    = google_pubsub_topic.own[each.key].name
  role     = "roles/pubsub.publisher"
  member   = local.forwarder
}

resource "google_pubsub_subscription_iam_member" "forwards" {
  for_each     = local.subscriptions
  project      = var.project
  subscription = google_pubsub_subscription.own[each.key].name
  role         = "roles/pubsub.subscriber"
  member       = local.forwarder
}

resource "google_pubsub_topic_iam_member" "publishes" {
  for_each = { for topic, service in local.topics : topic => service if !contains(local.dead_letters, topic) }
  project  = var.project
  topic    = google_pubsub_topic.own[each.key].name
  role     = "roles/pubsub.publisher"
  member   = "serviceAccount:${lookup(var.publishers, each.value, var.service_accounts[each.value])}"
}

resource "google_pubsub_subscription_iam_member" "receives" {
  for_each     = local.subscriptions
  project      = var.project
  subscription = google_pubsub_subscription.own[each.key].name
  role         = "roles/pubsub.subscriber"
  member       = "serviceAccount:${var.service_accounts[each.value.service]}"
}

# The command doctor compares these topics and subscriptions with the lists; it sees nothing else of the project.
resource "google_pubsub_topic_iam_member" "views" {
  for_each = local.topics
  project  = var.project
  topic    = google_pubsub_topic.own[each.key].name
  role     = "roles/pubsub.viewer"
  member   = "serviceAccount:${var.service_accounts[each.value]}"
}

resource "google_pubsub_topic_iam_member" "views_sources" {
  for_each = merge([for name, list in local.services : { for topic in list.sources : "${name} ${topic}" => { service = name, topic = topic } }]...)
  project  = var.project
  topic    = each.value.topic
  role     = "roles/pubsub.viewer"
  member   = "serviceAccount:${var.service_accounts[each.value.service]}"

  depends_on = [google_pubsub_topic.source]
}

resource "google_pubsub_subscription_iam_member" "views" {
  for_each     = local.subscriptions
  project      = var.project
  subscription = google_pubsub_subscription.own[each.key].name
  role         = "roles/pubsub.viewer"
  member       = "serviceAccount:${var.service_accounts[each.value.service]}"
}

# The signed heads of the audit, where those who could rewrite database and lake can not follow: `audit verify --from-head` holds both to
# them. A topic without a subscription forgets what is sent to it, and a bucket without a locked retention forgets what its administrator
# wants it to. Locking can not be undone: the bucket, and its project, stay for seven years.
locals {
  archive    = var.audit_archive == null ? {} : { sealed = var.audit_archive }
  audit_head = "melmastoon.bff.backoffice.audit.sealed.v1"
}

data "google_project" "archive" {
  for_each   = local.archive
  project_id = each.value.project
}

resource "google_storage_bucket" "audit_heads" {
  for_each                    = local.archive
  project                     = each.value.project
  name                        = "${each.value.project}-audit-heads"
  location                    = each.value.location
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  retention_policy {
    is_locked        = true
    retention_period = 220898664 # seven years
  }
}

resource "google_storage_bucket_iam_member" "keeps" {
  for_each = { for role in ["roles/storage.objectCreator", "roles/storage.legacyBucketReader"] : role => role if var.audit_archive != null }
  bucket   = google_storage_bucket.audit_heads["sealed"].name
  role     = each.value
  member   = "serviceAccount:service-${data.google_project.archive["sealed"].number}@gcp-sa-pubsub.iam.gserviceaccount.com"
}

# Of the archive's project, so that it can not be taken away from here. Who applies this needs roles/pubsub.subscriber on the topic.
resource "google_pubsub_subscription" "audit_heads" {
  for_each = local.archive
  project  = each.value.project
  name     = "audit-heads"
  topic    = google_pubsub_topic.own[local.audit_head].id

  cloud_storage_config {
    bucket          = google_storage_bucket.audit_heads[each.key].name
    filename_suffix = ".json"
    max_duration    = "300s"
  }

  message_retention_duration = "604800s"
  expiration_policy {
    ttl = ""
  }
  depends_on = [google_storage_bucket_iam_member.keeps]
}
