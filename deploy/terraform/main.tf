# Pub/Sub as both services need it: topics, subscriptions, their dead letters and who may use them. The lists
# are made by `bff-consumer events topics --json` and its twin of the staff service; the services create nothing.
#
#   module "bff" {
#     source           = "./deploy/terraform"
#     project          = "example-project"
#     service_accounts = { bff-consumer = "bff-consumer@…", bff-backoffice = "bff-backoffice@…" }
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
  member   = "serviceAccount:${var.service_accounts[each.value]}"
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
