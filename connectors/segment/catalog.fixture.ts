/*
 * The words about the destinations of the pack, which has none: names as vendors write them, a category, and a sentence that
 * sets each apart. `definitions.json` is made of them and of the pack.
 */

export interface Words {
  readonly title: string;
  readonly category: string;
  readonly sentence: string;
}

/**
 * By category: the folder of the pack, the name and the sentence of each destination. A folder without words is not offered,
 * and has its reason in `NOT_OFFERED`.
 */
const BY_CATEGORY: Readonly<Record<string, string>> = {
  Advertising: `
    1plusx | 1plusX | Sends user events to the 1plusX data management platform.
    1plusx-asset-api | 1plusX Asset API | Keeps the assets of the 1plusX platform up to date.
    amazon-amc | Amazon Ads DSP and AMC | Syncs audiences to Amazon DSP and Amazon Marketing Cloud.
    amazon-conversions-api | Amazon Conversions API | Reports conversions to Amazon Ads.
    angler-ai | Angler AI | Sends shop events to the prediction of Angler AI.
    bing-ads-audiences | Bing Ads Audiences | Syncs customer lists to Bing Ads.
    blend-ai | Blend AI | Sends shop events to the ad automation of Blend AI.
    criteo | Criteo | Reports offline and online conversions to Criteo.
    criteo-audiences | Criteo Audiences | Adds people to and removes them from audiences of Criteo.
    delivrai-activate | Delivr AI Audiences | Syncs audiences to Delivr AI.
    display-video-360 | Display & Video 360 | Syncs audiences to Google Display & Video 360.
    epsilon | Epsilon | Reports events of customers to the Epsilon digital network.
    facebook-conversions-api | Facebook Conversions API | Reports conversions to Meta by its server API.
    facebook-custom-audiences | Facebook Custom Audiences | Syncs custom audiences of Meta.
    first-party-dv360 | First Party DV360 | Syncs first-party audiences of Display & Video 360.
    google-campaign-manager-360 | Google Campaign Manager 360 | Uploads offline conversions to Campaign Manager 360.
    google-data-manager | Google Data Manager | Ingests audiences by the Data Manager API of Google.
    google-enhanced-conversions | Google Ads Conversions | Uploads conversions and customer lists to Google Ads.
    iqm | IQM | Sends conversions as postbacks to IQM.
    kevel | Kevel UserDB | Adds custom properties and interests to users of Kevel.
    kevel-audience | Kevel Audience | Sends events and identities to Kevel Audience.
    linkedin-audiences | LinkedIn Audiences | Syncs matched audiences of LinkedIn.
    linkedin-conversions | LinkedIn Conversions API | Streams conversions to LinkedIn.
    moloco-rmp | Moloco Commerce Media | Reports shopping events to the retail media platform of Moloco.
    ms-bing-ads-audiences | Microsoft Ads Audiences | Syncs customer match lists of Microsoft Advertising.
    ms-bing-capi | Microsoft Bing CAPI | Reports conversions to Microsoft Advertising by its conversions API.
    nextdoor-capi | Nextdoor Conversions API | Reports conversions to Nextdoor Ads.
    pinterest-conversions | Pinterest Conversions API | Reports conversions to Pinterest.
    reddit-audiences | Reddit Audiences | Syncs custom audiences of Reddit.
    reddit-conversions-api | Reddit Conversions API | Reports conversions to Reddit Ads.
    revend | Revend | Sends shop events to the adapter of Revend.
    revx | RevX | Sends app events for retargeting to RevX.
    rokt-audiences | Rokt Audiences | Syncs custom audiences of Rokt Ads.
    rokt-capi | Rokt Conversions API | Reports conversions and audiences to Rokt.
    snap-audiences | Snap Audiences | Syncs customer audiences of Snapchat.
    snap-conversions-api | Snap Conversions API | Reports conversions to Snapchat.
    stackadapt | StackAdapt | Reports page views and conversions to StackAdapt.
    stackadapt-audiences | StackAdapt Audiences | Syncs audiences and events to StackAdapt.
    taboola-actions | Taboola | Syncs first-party audiences of Taboola.
    tiktok-app-events | TikTok App Events | Reports app events to TikTok.
    tiktok-audiences | TikTok Audiences | Syncs custom audiences of TikTok.
    tiktok-conversions | TikTok Conversions | Reports web conversions to TikTok by its Events API.
    tiktok-conversions-sandbox | TikTok Conversions (sandbox) | Tries web conversions in test events of TikTok.
    tiktok-offline-conversions | TikTok Offline Conversions | Reports offline and CRM events to TikTok.
    tiktok-offline-conversions-sandbox | TikTok Offline Conversions (sandbox) | Tries offline events in a test event set of TikTok.
    topsort | Topsort | Reports impressions, clicks and purchases to the auctions of Topsort.
    vibe-audience | Vibe Audience | Syncs audiences for TV advertising to Vibe.
    yahoo-audiences | Yahoo Audiences | Syncs audiences to Yahoo DSP.
    youappi-audiences | YouAppi Audiences | Syncs audiences for retargeting of apps to YouAppi.
  `,
  Analytics: `
    accoil-analytics | Accoil Analytics | Measures product engagement in Accoil.
    actable-predictive | Actable Predictive | Sends events to the predictive models of Actable.
    aggregations-io | Aggregations.io | Sends every event to an ingest of Aggregations.io.
    altertable | Altertable | Sends product events and identities to Altertable.
    amplitude | Amplitude | Logs events, purchases and user properties in Amplitude.
    amplitude-cohorts | Amplitude Cohorts | Keeps the members of cohorts in Amplitude.
    app-fit | AppFit | Tracks events of apps and their users in AppFit.
    calliper | Calliper | Sends onboarding events to Calliper.
    canvas | Canvas | Loads events and traits into Canvas.
    dawn | Dawn AI | Sends the use of AI products to Dawn AI.
    equals | Equals | Sends events into spreadsheets of Equals.
    fullstory | Fullstory | Adds server events and user properties to sessions in Fullstory.
    google-analytics-4 | Google Analytics 4 | Sends events by the measurement protocol of GA4.
    heap | Heap | Sends server-side events and user properties to Heap.
    june | June | Sends calls to the product analytics of June.
    launchpad | Launchpad | Sends events and identities to Launchpad.
    mixpanel | Mixpanel | Imports events, purchases, users and groups to Mixpanel.
    posthog | PostHog | Captures events, persons and groups in PostHog.
    prodeology | Prodeology | Sends product events to Prodeology.
    ripe | Ripe | Sends calls to the product analytics of Ripe.
    roadwayai | Roadway AI | Sends events and identities to the growth analytics of Roadway AI.
    trackey | Trackey | Sends calls to the customer analytics of Trackey.
    trubrics | Trubrics | Sends prompts, answers and events of AI products to Trubrics.
    usermaven | Usermaven | Sends events, users and companies to Usermaven.
  `,
  Attribution: `
    adjust | Adjust | Sends server-to-server events of apps to Adjust.
    attribution | Attribution | Attributes conversions to channels in Attribution.
    dub | Dub | Tracks leads and sales of short links in Dub.
    magellan-ai | Magellan AI | Attributes conversions to podcast advertising in Magellan AI.
    podscribe | Podscribe | Attributes site activity to podcast advertising in Podscribe.
  `,
  Billing: `
    chartmogul | ChartMogul | Adds contacts and their activity to ChartMogul.
    lark | Lark | Reports metered usage to the billing of Lark.
    m3ter | m3ter | Submits usage measurements to m3ter.
    mantle | Mantle | Identifies customers and reports usage events of apps to Mantle.
    metronome | Metronome | Sends usage events that are billed by Metronome.
    schematic | Schematic | Sends usage of features, users and companies to Schematic.
  `,
  'Commerce and search': `
    algolia-insights | Algolia Insights | Reports clicks and conversions of searches to Algolia.
    recombee | Recombee | Sends interactions with items to the recommendations of Recombee.
    spiffy | Spiffy | Sends shopping events to the agents of Spiffy.
  `,
  'CRM and sales': `
    actions-pardot | Pardot | Creates and updates prospects in Salesforce Pardot.
    apolloio | Apollo.io | Sends website activity to Apollo.io.
    attio | Attio | Creates people, companies and workspaces in Attio.
    blackbaud-raisers-edge-nxt | Blackbaud Raiser's Edge NXT | Records constituents and gifts in Raiser's Edge NXT.
    clay | Clay | Sends website visits and people to Clay for enrichment.
    close | Close | Creates and updates leads and contacts in Close.
    collab-travel-crm | Collab Travel CRM | Records travellers and bookings in Collab Travel CRM.
    hubspot | HubSpot | Upserts contacts, companies and custom objects in HubSpot.
    inleads-ai | InLeads AI | Scores leads by their activity in InLeads AI.
    koala | Koala | Sends intent of website visitors to Koala.
    memora | Twilio Memora | Upserts profiles in the memory store of Twilio.
    outfunnel | Outfunnel | Links website visits and sign-ups to contacts by Outfunnel.
    pipedrive | Pipedrive | Upserts persons, organizations, deals, leads and notes in Pipedrive.
    qualified | Qualified | Shows the activity of visitors to sales in Qualified.
    salesforce | Salesforce | Creates and updates records of any object in Salesforce.
    saleswings | SalesWings | Scores leads by their website visits in SalesWings.
    toplyne | Toplyne | Sends product usage to the lead scoring of Toplyne.
    usermotion | UserMotion | Scores leads by product usage in UserMotion.
    voiceops | VoiceOps | Sends contact records to the call coaching of VoiceOps.
  `,
  'Customer success': `
    appcues | Appcues | Targets in-app experiences of Appcues by events and traits.
    devrev | DevRev | Creates accounts, contacts and work items in DevRev.
    gainsight-px-cloud-action | Gainsight PX | Sends product usage of accounts to Gainsight PX.
    gleap | Gleap | Keeps contacts and their events in the support tool Gleap.
    hyperengage | Hyperengage | Tracks the health of accounts in Hyperengage.
    intercom | Intercom | Tracks users, companies and events in Intercom.
    jimo-cloud | Jimo | Targets product tours of Jimo by events and traits.
    klime | Klime | Measures the use of products by customers in Klime.
    pendo-audiences | Pendo Audiences | Syncs visitors to segments of Pendo.
    playerzero-cloud | PlayerZero | Adds events and identities to the debugging of PlayerZero.
    userpilot | Userpilot | Targets in-app flows of Userpilot by events, users and companies.
  `,
  'Data and developers': `
    avo | Avo Inspector | Sends the schemas of events to Avo Inspector.
    avo-v2 | Avo Inspector v2 | Checks events against the tracking plan in Avo, with encrypted values.
    google-sheets | Google Sheets | Writes rows into a spreadsheet of Google.
    ironclad | Ironclad | Records acceptance of click-through contracts in Ironclad.
    segment | Segment | Sends calls to a source of another Segment workspace.
    singlestore | SingleStore | Inserts events as rows into a database of SingleStore.
    webhook | Webhook (Segment) | Sends the mapped part of an event to any URL, in the form of Segment.
    webhook-audiences | Webhook Audiences | Sends the members of audiences to URLs of your own.
    webhook-extensible | Extensible Webhook | Sends events to any URL with a token of your own provider.
    zapier | Zapier | Starts a Zap by a webhook of Zapier.
  `,
  'Email and messaging': `
    aampe | Aampe | Feeds the agents of Aampe, which choose messages for each person.
    acoustic | Acoustic Campaign | Writes events and contacts into tables of Acoustic Campaign.
    acoustic-s3tc | Acoustic S3 | Puts events as files into the bucket that Acoustic reads.
    airship | Airship | Sends custom events, attributes and tags of channels to Airship.
    ambee | Ambee | Links users to the environmental triggers of Ambee.
    attentive | Attentive | Subscribes people to SMS and sends their events to Attentive.
    batch | Batch | Updates profiles and events of the Batch engagement platform.
    braze | Braze | Sends events, purchases and profiles to Braze.
    braze-cohorts | Braze Cohorts | Keeps the members of cohorts in Braze.
    clevertap | CleverTap | Uploads profiles and deletes users in CleverTap.
    cordial | Cordial | Upserts contacts, orders and events in Cordial.
    courier | Courier | Starts notifications of Courier by events.
    customerio | Customer.io | Sends people, devices, objects and events to Customer.io Journeys.
    dotdigital | Dotdigital | Adds contacts to lists, programs and SMS of Dotdigital.
    dotdigital-audiences | Dotdigital Audiences | Syncs audiences to lists of Dotdigital.
    drip | Drip | Records subscribers and their events in Drip.
    emarsys | Emarsys | Upserts contacts and triggers external events in SAP Emarsys.
    encharge | Encharge | Sends users and events to the email automation of Encharge.
    engage-messaging-sendgrid | Engage Messaging SendGrid | Sends emails of Segment Engage.
    engage-messaging-twilio | Engage Messaging Twilio | Sends messages of Segment Engage.
    hilo | Hilo | Sends events to the agents of Hilo.
    insider | Insider | Sends users, cart events and purchases to Insider.
    insider-audiences | Insider Audiences | Syncs audiences to the user database of Insider.
    iterable | Iterable | Sends users, custom events and purchases to Iterable.
    iterable-audiences | Iterable Audiences | Syncs audiences to static lists of Iterable.
    iterable-lists | Iterable Lists | Adds users to and removes them from lists of Iterable.
    klaviyo | Klaviyo | Upserts profiles, subscribes them, and tracks events and orders in Klaviyo.
    listrak | Listrak | Updates the profile fields of email contacts in Listrak.
    loops | Loops | Creates contacts and sends events that start emails in Loops.
    marketo-static-lists | Marketo Static Lists | Adds leads to and removes them from static lists of Marketo.
    moengage | MoEngage | Sends users and their events to MoEngage.
    movable-ink | Movable Ink | Sends browsing and purchases to Movable Ink.
    ortto | Ortto | Upserts contacts and sends activities to Ortto.
    ortto-audiences | Ortto Audiences | Syncs audiences to Ortto.
    postscript | Postscript | Manages SMS subscribers and sends custom events to Postscript.
    pushwoosh | Pushwoosh | Sends events and tags of users to Pushwoosh.
    responsys | Oracle Responsys | Merges profiles and triggers custom events in Responsys.
    salesforce-marketing-cloud | Salesforce Marketing Cloud | Upserts data extensions and fires journey events in Marketing Cloud.
    sendgrid | SendGrid | Upserts marketing contacts and sends dynamic emails by SendGrid.
    sendgrid-audiences | SendGrid Lists | Syncs audiences to marketing lists of SendGrid.
    slack | Slack | Posts messages to a channel by an incoming webhook of Slack.
    taguchi | Taguchi | Syncs subscribers and their events to Taguchi.
    twilio | Twilio | Sends SMS and makes calls by the API of Twilio.
    twilio-messaging | Twilio Messaging | Sends SMS, MMS, WhatsApp and RCS messages by Twilio content templates.
    twilio-messaging-omnichannel | Twilio Messaging Omnichannel | Sends messages over any channel of Twilio.
    twilio-studio | Twilio Studio | Starts a flow of Twilio Studio for a contact.
    voyage | Voyage | Sends events to the SMS marketing of Voyage.
    xtremepush | Xtremepush | Sends profiles and events to Xtremepush.
    yonoma | Yonoma | Sends contacts and events to the email marketing of Yonoma.
  `,
  'Experimentation and personalization': `
    absmartly | ABsmartly | Reports exposures and goals of experiments to ABsmartly.
    adobe-target | Adobe Target | Updates the profiles of visitors in Adobe Target.
    contentstack | Contentstack | Sets attributes of visitors for Contentstack Personalize.
    dynamic-yield-audiences | Dynamic Yield Audiences | Syncs audiences to Dynamic Yield by Mastercard.
    kameleoon | Kameleoon | Reports conversions of experiments to Kameleoon.
    launchdarkly | LaunchDarkly | Sends metric events and aliases of contexts to LaunchDarkly.
    launchdarkly-audiences | LaunchDarkly Audiences | Syncs audiences to segments of LaunchDarkly.
    nudge | Nudge | Triggers in-app nudges by events of users.
    optimizely-advanced-audience-targeting | Optimizely Advanced Audience Targeting | Syncs audiences for the targeting of Optimizely.
    optimizely-data-platform | Optimizely Data Platform | Sends customers and events to the Optimizely Data Platform.
    optimizely-feature-experimentation-actions | Optimizely Feature Experimentation | Tracks conversion events of feature experiments.
    optimizely-web | Optimizely Web | Tracks custom events and page views of Optimizely Web experiments.
    vwo | VWO | Tracks events, visitors and page views of VWO campaigns.
  `,
  'Loyalty and rewards': `
    antavo | Antavo | Records members and their events in the Antavo loyalty cloud.
    eagleeye-audiences | Eagle Eye | Adds audiences to the wallets of Eagle Eye AIR.
    friendbuy | Friendbuy | Reports sign-ups and purchases of referrals to Friendbuy.
    gameball | Gameball | Rewards customers for events and orders in Gameball.
    gwen | GWEN | Sends player events to the gamification of Insert Coin.
    livelike-cloud | LiveLike | Sends fan actions to the engagement platform LiveLike.
    rehook | Rehook | Sends customers and events to the promotions of Rehook.
    talon-one | Talon.One | Updates customer profiles and sessions of the promotion engine Talon.One.
    voucherify | Voucherify | Upserts customers and sends custom events to Voucherify.
    yotpo | Yotpo | Sends customers and orders to Yotpo.
  `,
  'Surveys and feedback': `
    canny-functions | Canny | Keeps users and companies of the feedback tool Canny.
    qualtrics | Qualtrics | Adds contacts and starts workflows in Qualtrics XM.
    sprig | Sprig | Targets in-product surveys of Sprig by events and traits.
    surveysparrow | SurveySparrow | Creates contacts and starts surveys in SurveySparrow.
    survicate | Survicate | Targets surveys of Survicate by events and attributes.
  `,
};

export const WORDS: Readonly<Record<string, Words>> = Object.fromEntries(
  Object.entries(BY_CATEGORY).flatMap(([category, lines]) =>
    lines
      .trim()
      .split('\n')
      .map((line) => {
        const [folder = '', title = '', sentence = ''] = line.trim().split(' | ');
        return [folder, { title, category, sentence }];
      }),
  ),
);
