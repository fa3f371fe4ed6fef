import { Page } from '../../shared/page.tsx';

export function DestinationPage() {
  return <Page title="Destination">{null}</Page>;
}
