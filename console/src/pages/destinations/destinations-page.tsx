import { Page } from '../../shared/page.tsx';

export function DestinationsPage() {
  return <Page title="Destinations">{null}</Page>;
}
